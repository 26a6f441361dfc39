// Elements without HTML text: whatever a user's job is called, it is shown as text and never read as markup.
//
//   h("td", { class: "number" }, count)      an element
//   svg("rect", { x: 1 })                    the same in a drawing
//   patch(root, nodes)                       make the children of root like nodes; what is alike stays, with its focus

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
      (element.handlers ??= {})[name.slice(2)] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function h(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

/** Make the children of `root` like `wanted`: elements with the same name and `data-key` are kept and changed. */
export function patch(root, wanted) {
  const nodes = [wanted].flat(Infinity).filter((node) => node !== null && node !== undefined && node !== false);
  const targets = nodes.map((node) => (node instanceof Node ? node : document.createTextNode(String(node))));
  const keyed = new Map();
  for (const child of root.childNodes) {
    const key = keyOf(child);
    if (key !== null) keyed.set(key, child);
  }
  let at = root.firstChild;
  for (const target of targets) {
    const key = keyOf(target);
    let match = key === null ? at : keyed.get(key);
    if (match && key !== null && match !== at) root.insertBefore(match, at);
    if (match && alike(match, target)) {
      update(match, target);
      at = match.nextSibling;
    } else {
      root.insertBefore(target, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function update(kept, target) {
  if (kept.nodeType !== Node.ELEMENT_NODE) {
    if (kept.nodeValue !== target.nodeValue) kept.nodeValue = target.nodeValue;
    return;
  }
  for (const { name } of [...kept.attributes]) {
    if (!target.hasAttribute(name) && !(kept.nodeName === "DETAILS" && name === "open")) kept.removeAttribute(name);
  }
  for (const { name, value } of target.attributes) {
    if (kept.getAttribute(name) !== value) kept.setAttribute(name, value);
  }
  for (const [event, handler] of Object.entries(kept.handlers ?? {})) kept.removeEventListener(event, handler);
  for (const [event, handler] of Object.entries(target.handlers ?? {})) kept.addEventListener(event, handler);
  kept.handlers = target.handlers;
  if (kept.nodeName === "INPUT" || kept.nodeName === "SELECT" || kept.nodeName === "TEXTAREA") return;
  patch(kept, [...target.childNodes]);
}
