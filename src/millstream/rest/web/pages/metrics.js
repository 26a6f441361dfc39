// Metrics of a vertex as they change: chosen by name, drawn from what this page has seen.

import { get } from "../api.js";
import { lineChart } from "../charts.js";
import { h } from "../dom.js";
import { short, watermark } from "../format.js";
import { notice } from "../parts.js";

const FIRST = ["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "currentInputWatermark", "heldRecords", "pendingRecords"];
const KEPT = 300;
const seen = new Map();

export async function load({ job, query }) {
  const vertex = query.get("vertex") ?? job.vertices[0]?.id;
  if (!vertex) return { vertex: null, names: [], values: [] };
  const base = `jobs/${job.jid}/vertices/${vertex}/metrics`;
  const names = (await get(base)).map((each) => each.id).sort();
  const chosen = choose(names, query);
  const values = chosen.length ? await get(`${base}?get=${chosen.map(encodeURIComponent).join(",")}`) : [];
  const now = Date.now();
  for (const { id, value } of values) {
    const key = `${job.jid} ${vertex} ${id}`;
    const points = seen.get(key) ?? [];
    points.push([now, Number(value)]);
    if (points.length > KEPT) points.shift();
    seen.set(key, points);
  }
  return { vertex, names, chosen };
}

/** Watermarks are moments, and their chart need not begin at 1970. */
function drawn(name, points) {
  if (!name.endsWith("Watermark")) return lineChart(name, points, short);
  return lineChart(name, points.filter(([, value]) => value > 0), (value) => watermark(value).slice(-8), { fromZero: false });
}

function choose(names, query) {
  const asked = query.get("metrics");
  if (asked !== null) return asked.split(",").filter((name) => names.includes(name));
  return names.filter((name) => FIRST.includes(name.replace(/^\d+\./, "").split(".").pop())).slice(0, 8);
}

export function render({ vertex, names, chosen }, { job, go }) {
  if (!vertex) return [notice("", "This job has no vertices.")];
  const take = (next, other) => go("metrics", { vertex: other ?? vertex, ...(next ? { metrics: next.join(",") } : {}) });
  return [
    h(
      "p",
      { class: "row", "data-key": "choose" },
      h(
        "label",
        null,
        "Vertex ",
        h(
          "select",
          { id: "vertex", onchange: (event) => take(null, event.target.value) },
          job.vertices.map((each) => h("option", { value: each.id, selected: each.id === vertex }, each.name)),
        ),
      ),
      h(
        "label",
        null,
        "Add a metric ",
        h("input", {
          id: "metric",
          list: "names",
          size: 46,
          placeholder: `${names.length} of them`,
          onchange: (event) => {
            const name = event.target.value;
            event.target.value = "";
            if (names.includes(name) && !chosen.includes(name)) take([...chosen, name]);
          },
        }),
        h("datalist", { id: "names" }, names.map((name) => h("option", { value: name }))),
      ),
    ),
    h(
      "div",
      { class: "charts", "data-key": "charts" },
      chosen.map((name) =>
        h(
          "div",
          { class: "named", "data-key": name },
          drawn(name, seen.get(`${job.jid} ${vertex} ${name}`) ?? []),
          h("button", { "aria-label": `Remove ${name}`, onclick: () => take(chosen.filter((each) => each !== name)) }, "×"),
        ),
      ),
    ),
  ];
}
