// The graph of a job, its vertices, and the subtasks of the chosen one.

import { gather } from "../api.js";
import { h } from "../dom.js";
import { bytes, duration, number, share, watermark } from "../format.js";
import { drawGraph } from "../graph.js";
import { badge, table } from "../parts.js";

export async function load({ job, query }) {
  const chosen = query.get("vertex");
  const asked = { jobs: `jobs/${job.jid}` };
  const paths = { ...asked };
  for (const vertex of job.vertices) paths[`pressure ${vertex.id}`] = `jobs/${job.jid}/vertices/${vertex.id}/backpressure`;
  if (chosen) {
    paths.vertex = `jobs/${job.jid}/vertices/${chosen}`;
    paths.watermarks = `jobs/${job.jid}/vertices/${chosen}/watermarks`;
  }
  return gather(paths);
}

export function render(data, { job, query, go }) {
  const chosen = query.get("vertex");
  const vertices = new Map(job.vertices.map((vertex) => [vertex.id, known(vertex, data[`pressure ${vertex.id}`])]));
  const choose = (id) => go("graph", id === chosen ? {} : { vertex: id });
  return [
    h(
      "section",
      { class: "card", "data-key": "graph" },
      h("h2", null, "Graph"),
      drawGraph(job.plan?.nodes ?? [], vertices, chosen, choose),
    ),
    h(
      "section",
      { class: "card", "data-key": "vertices" },
      h("h2", null, "Vertices"),
      table(
        ["Vertex", "Status", "#Parallelism", "#Records in", "#Records out", "#Bytes out", "#Busy", "#Held back", "#Since"],
        job.vertices.map((vertex) => {
          const more = vertices.get(vertex.id);
          return {
            key: vertex.id,
            chosen: vertex.id === chosen,
            cells: [
              h("a", { href: `#/jobs/${job.jid}/graph?vertex=${vertex.id}` }, vertex.name),
              badge(vertex.status),
              vertex.parallelism,
              number(more.read),
              number(more.written),
              bytes(vertex.metrics["write-bytes"]),
              share(more.busy),
              share(more.pressed),
              duration(vertex.duration),
            ],
          };
        }),
      ),
    ),
    chosen && data.vertex ? subtasks(data.vertex, data.watermarks, data[`pressure ${chosen}`]) : null,
  ];
}

function known(vertex, pressure) {
  const subtasks = pressure?.subtasks ?? [];
  const largest = (name) => (subtasks.length ? Math.max(...subtasks.map((each) => each[name] ?? 0)) * 1000 : null);
  return {
    name: vertex.name,
    status: vertex.status,
    read: vertex.metrics["read-records"],
    written: vertex.metrics["write-records"],
    busy: largest("busyRatio"),
    pressed: largest("ratio"),
  };
}

function subtasks(vertex, watermarks, pressure) {
  const marks = new Map((watermarks ?? []).map((each) => [Number(each.id.split(".")[0]), Number(each.value)]));
  const shares = new Map((pressure?.subtasks ?? []).map((each) => [each.subtask, each]));
  return h(
    "section",
    { class: "card", "data-key": "subtasks" },
    h("h2", null, `Subtasks of ${vertex.name}`),
    table(
      ["#Subtask", "Status", "Host", "#Attempt", "#Records in", "#Records out", "#Busy", "#Idle", "#Held back", "_Watermark"],
      vertex.subtasks.map((each) => ({
        key: `${each.subtask}`,
        cells: [
          each.subtask,
          badge(each.status),
          each.endpoint ?? each.host,
          each.attempt,
          number(each.metrics["read-records"]),
          number(each.metrics["write-records"]),
          share((shares.get(each.subtask)?.busyRatio ?? NaN) * 1000),
          share((shares.get(each.subtask)?.idleRatio ?? NaN) * 1000),
          share((shares.get(each.subtask)?.ratio ?? NaN) * 1000),
          watermark(marks.get(each.subtask)),
        ],
      })),
    ),
  );
}
