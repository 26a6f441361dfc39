// Small drawings of numbers over time.

import { h, svg } from "./dom.js";

const WIDTH = 360;
const HEIGHT = 110;
const LEFT = 54;
const BOTTOM = 18;

/** A line over time: `points` as [milliseconds, number], `write` makes the labels. */
export function lineChart(title, points, write, { fromZero = true } = {}) {
  const known = points.filter(([, value]) => typeof value === "number" && Number.isFinite(value));
  const last = known.length ? write(known[known.length - 1][1]) : "–";
  const head = h("figcaption", null, h("span", null, title), h("strong", null, last));
  if (known.length < 2) {
    return h("figure", { class: "chart", "data-key": title }, head, h("p", { class: "quiet" }, "Not enough points yet."));
  }
  const first = known[0][0];
  const span = Math.max(known[known.length - 1][0] - first, 1);
  const values = known.map(([, value]) => value);
  const top = fromZero ? Math.max(...values, 0) || 1 : Math.max(...values);
  const low = fromZero ? Math.min(...values, 0) : Math.min(...values);
  const x = (at) => LEFT + ((at - first) / span) * (WIDTH - LEFT - 6);
  const y = (value) => 6 + (1 - (value - low) / (top - low || 1)) * (HEIGHT - BOTTOM - 8);
  const line = known.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return h(
    "figure",
    { class: "chart", "data-key": title },
    head,
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${last}` },
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 6, y1: y(low), y2: y(low) }),
      svg("line", { class: "axis faint", x1: LEFT, x2: WIDTH - 6, y1: y(top), y2: y(top) }),
      svg("text", { class: "label", x: LEFT - 6, y: y(top) + 4, "text-anchor": "end" }, write(top)),
      svg("text", { class: "label", x: LEFT - 6, y: y(low) + 4, "text-anchor": "end" }, write(low)),
      svg("text", { class: "label", x: LEFT, y: HEIGHT - 4 }, clock(first)),
      svg("text", { class: "label", x: WIDTH - 6, y: HEIGHT - 4, "text-anchor": "end" }, clock(first + span)),
      svg("polyline", { class: "line", points: line }),
    ),
  );
}

/** Bars one behind the other, each of parts: `bars` as { key, title, parts: [[class, size]] }. A few that are far higher
 *  than the rest are cut off, so that the rest can be seen. */
export function barChart(bars, { height = 140, label }) {
  const sizes = bars.map((bar) => bar.parts.reduce((sum, [, size]) => sum + size, 0)).sort((one, other) => one - other);
  const top = Math.max(Math.min(sizes[sizes.length - 1], (sizes[Math.floor(sizes.length * 0.95)] ?? 1) * 1.6), 0.001);
  const width = Math.max(bars.length * 9, 200);
  return h(
    "div",
    { class: "bars", role: "img", "aria-label": label },
    svg(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}` },
      bars.map((bar, index) => {
        let below = height - 2;
        return svg(
          "g",
          { "data-key": bar.key },
          svg("title", null, bar.title),
          bar.parts.map(([name, size]) => {
            const tall = Math.min((size / top) * (height - 8), below);
            below -= tall;
            return svg("rect", { class: name, x: index * 9 + 1, y: below, width: 7, height: Math.max(tall, 0.5) });
          }),
        );
      }),
    ),
  );
}

function clock(at) {
  return new Date(at).toTimeString().slice(0, 8);
}
