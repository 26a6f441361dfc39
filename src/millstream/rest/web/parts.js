// Pieces that several pages use.

import { h } from "./dom.js";

export function badge(status) {
  return h("span", { class: `badge ${status}` }, status);
}

/** A table: a heading that begins with # is of numbers, one with _ of short texts; rows as { key, cells, chosen }. */
export function table(headings, rows) {
  const kinds = headings.map((heading) => ({ "#": "number", _: "nowrap" })[heading[0]] ?? null);
  return h(
    "table",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        headings.map((heading, index) =>
          h("th", { scope: "col", class: kinds[index] }, heading.replace(/^[#_]/, "")),
        ),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          { "data-key": row.key, class: row.chosen ? "chosen" : null },
          row.cells.map((cell, index) => h("td", { class: kinds[index] }, cell)),
        ),
      ),
    ),
  );
}

/** Names and values side by side. */
export function facts(pairs) {
  return h(
    "table",
    null,
    h(
      "tbody",
      null,
      pairs.map(([name, value]) => h("tr", { "data-key": name }, h("th", { scope: "row" }, name), h("td", null, value))),
    ),
  );
}

export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: "status" }, children);
}

/** Ask before something that cannot be undone; resolves with the values of its inputs, or null. */
export function confirm(title, content, action) {
  return new Promise((resolve) => {
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", null, title),
      content,
      h(
        "p",
        { class: "row" },
        h("button", { value: "yes", class: "main" }, action),
        h("button", { value: "no", formnovalidate: true }, "Leave it"),
      ),
    );
    const dialog = h("dialog", null, form);
    dialog.addEventListener("close", () => {
      const values = Object.fromEntries(new FormData(form).entries());
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? values : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
