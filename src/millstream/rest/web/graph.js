// Draws a job's graph: vertices in layers from left to right, edges as curves. Sizes are in pixels.

import { h, svg } from "./dom.js";
import { share, short } from "./format.js";

const WIDTH = 228;
const HEIGHT = 92;
const BETWEEN_LAYERS = 90;
const BETWEEN_ROWS = 26;
const LINE_LENGTH = 26;
const BEND = 22;

/** Positions by vertex id, and the bends of edges that pass other layers, by `from to`.
 *
 *  Each vertex is one layer behind its farthest input. An edge that is longer has a row of its own in the layers between,
 *  so that it runs behind no box. Rows follow the means of neighbours.
 */
export function layOut(nodes) {
  const known = new Map(nodes.map((node) => [node.id, (node.inputs ?? []).map((input) => input.id)]));
  const layer = new Map();
  const depth = (id, seen = new Set()) => {
    if (layer.has(id)) return layer.get(id);
    if (seen.has(id) || !known.has(id)) return 0;
    seen.add(id);
    const own = Math.max(-1, ...known.get(id).map((from) => depth(from, seen))) + 1;
    layer.set(id, own);
    return own;
  };
  nodes.forEach((node) => depth(node.id));
  const { inputs, bends } = withBends(known, layer);
  const layers = [];
  for (const id of inputs.keys()) (layers[layer.get(id)] ??= []).push(id);
  const outputs = new Map([...inputs.keys()].map((id) => [id, []]));
  for (const [id, froms] of inputs) for (const from of froms) outputs.get(from)?.push(id);
  sortRows(layers, inputs, outputs);
  const heightOf = (id) => (known.has(id) ? HEIGHT : BEND);
  const tall = layers.map((ids) => ids.reduce((sum, id) => sum + heightOf(id) + BETWEEN_ROWS, -BETWEEN_ROWS));
  const tallest = Math.max(...tall, HEIGHT);
  const positions = new Map();
  layers.forEach((ids, column) => {
    let y = (tallest - tall[column]) / 2 + 8;
    for (const id of ids) {
      positions.set(id, { x: column * (WIDTH + BETWEEN_LAYERS) + 8, y });
      y += heightOf(id) + BETWEEN_ROWS;
    }
  });
  return {
    positions,
    bends,
    width: layers.length * (WIDTH + BETWEEN_LAYERS) - BETWEEN_LAYERS + 16,
    height: tallest + 16,
  };
}

/** Inputs by id with a bend in each layer that an edge passes, and the bends of each edge; layers of bends are added. */
function withBends(known, layer) {
  const inputs = new Map([...known.keys()].map((id) => [id, []]));
  const bends = new Map();
  for (const [id, froms] of known) {
    for (const from of froms) {
      const passed = [];
      let before = from;
      if (known.has(from)) {
        for (let at = layer.get(from) + 1; at < layer.get(id); at += 1) {
          const bend = `${from} ${id} ${at}`;
          layer.set(bend, at);
          inputs.set(bend, [before]);
          passed.push(bend);
          before = bend;
        }
      }
      inputs.get(id).push(before);
      bends.set(`${from} ${id}`, passed);
    }
  }
  return { inputs, bends };
}

/** Sorts the ids of each layer by where their neighbours are. */
function sortRows(layers, inputs, outputs) {
  const row = new Map();
  layers.forEach((ids) => ids.forEach((id, index) => row.set(id, index)));
  for (let round = 0; round < 6; round += 1) {
    const neighbours = round % 2 ? outputs : inputs;
    const order = round % 2 ? [...layers].reverse() : layers;
    for (const ids of order) {
      const mean = new Map(
        ids.map((id) => {
          const near = neighbours.get(id).filter((other) => row.has(other));
          return [id, near.length ? near.reduce((sum, other) => sum + row.get(other), 0) / near.length : row.get(id)];
        }),
      );
      ids.sort((one, other) => mean.get(one) - mean.get(other) || row.get(one) - row.get(other));
      ids.forEach((id, index) => row.set(id, index));
    }
  }
}

/** The curve of an edge: horizontal at each box and through each bend. */
function curve(from, to, bends) {
  let x = from.x + WIDTH;
  let y = from.y + HEIGHT / 2;
  let path = `M ${x} ${y}`;
  const reach = (nextX, nextY) => {
    const middle = (x + nextX) / 2;
    path += ` C ${middle} ${y}, ${middle} ${nextY}, ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY];
  };
  for (const bend of bends) {
    reach(bend.x, bend.y + BEND / 2);
    x += WIDTH;
    path += ` H ${x}`;
  }
  reach(to.x - 6, to.y + HEIGHT / 2);
  return path;
}

/** What a vertex is busy with: its class of colour. */
export function pressure(vertex) {
  const busy = vertex?.busy ?? null;
  const pressed = vertex?.pressed ?? null;
  if (pressed !== null && pressed >= 500) return "pressed";
  if (busy !== null && busy >= 900) return "hot";
  if (busy !== null && busy >= 500) return "warm";
  return busy === null ? "unknown" : "calm";
}

function lines(text) {
  const words = text.split(/(?<= -> )|(?<=, )|\s+/).filter(Boolean);
  const found = [""];
  for (const word of words) {
    const last = found[found.length - 1];
    if (last && (last + " " + word).trim().length > LINE_LENGTH) found.push(word);
    else found[found.length - 1] = (last + " " + word).trim();
  }
  const shown = found.slice(0, 2).map((line) => (line.length > LINE_LENGTH ? `${line.slice(0, LINE_LENGTH - 1)}…` : line));
  if (found.length > 2 && !shown[1].endsWith("…")) shown[1] = `${shown[1].slice(0, LINE_LENGTH - 1)}…`;
  return shown;
}

/** The drawing: `nodes` of the plan, `vertices` by id with what is known of them, the chosen one, what a click does. */
export function drawGraph(nodes, vertices, chosen, choose) {
  if (!nodes.length) return h("p", { class: "quiet" }, "This job has no graph.");
  const { positions, bends, width, height } = layOut(nodes);
  const edges = nodes.flatMap((node) =>
    (node.inputs ?? []).flatMap((input) => {
      const from = positions.get(input.id);
      const to = positions.get(node.id);
      if (!from || !to) return [];
      const passed = (bends.get(`${input.id} ${node.id}`) ?? []).map((bend) => positions.get(bend));
      const next = passed.length ? passed[0].y + BEND / 2 : to.y + HEIGHT / 2;
      return [
        svg("path", { class: "edge", d: curve(from, to, passed), "marker-end": "url(#arrow)" }),
        svg(
          "text",
          { class: "ship", x: from.x + WIDTH + BETWEEN_LAYERS / 2, y: (from.y + HEIGHT / 2 + next) / 2 - 6, "text-anchor": "middle" },
          input.ship_strategy,
        ),
      ];
    }),
  );
  const boxes = nodes.map((node) => {
    const { x, y } = positions.get(node.id);
    const vertex = vertices.get(node.id);
    const act = () => choose(node.id);
    const name = vertex?.name ?? node.description;
    return svg(
      "g",
      {
        class: `vertex ${pressure(vertex)} ${node.id === chosen ? "chosen" : ""}`,
        transform: `translate(${x}, ${y})`,
        tabindex: 0,
        role: "button",
        "data-key": node.id,
        "aria-pressed": node.id === chosen ? "true" : "false",
        "aria-label": `${name}, parallelism ${node.parallelism}, ${vertex?.status ?? ""}`,
        onclick: act,
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            act();
          }
        },
      },
      svg("title", null, name),
      svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }),
      lines(name).map((line, index) => svg("text", { class: "name", x: 10, y: 20 + index * 16 }, line)),
      svg("text", { class: "facts", x: 10, y: 58 }, `parallelism ${node.parallelism} · ${vertex?.status ?? ""}`),
      svg(
        "text",
        { class: "facts", x: 10, y: 76 },
        `busy ${share(vertex?.busy)} · in ${short(vertex?.read)} · out ${short(vertex?.written)}`,
      ),
    );
  });
  return h(
    "div",
    { class: "graph", "data-key": "graph" },
    svg(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "job graph" },
      svg(
        "defs",
        null,
        svg(
          "marker",
          { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
          svg("path", { class: "arrow", d: "M 0 0 L 8 4 L 0 8 z" }),
        ),
      ),
      edges,
      boxes,
    ),
    h(
      "p",
      { class: "legend" },
      ["calm", "warm", "hot", "pressed", "unknown"].map((each) => [
        h("span", { class: `swatch ${each}` }),
        { calm: "busy below 50 %", warm: "50 to 90 %", hot: "above 90 %", pressed: "held back", unknown: "not known" }[each],
        " ",
      ]),
    ),
  );
}
