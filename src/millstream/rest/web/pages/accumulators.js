// What a job's functions have accumulated, as of the last epoch.

import { get } from "../api.js";
import { h } from "../dom.js";
import { notice, table } from "../parts.js";

export async function load({ job }) {
  return get(`jobs/${job.jid}/accumulators`);
}

export function render(data) {
  const all = data["user-task-accumulators"] ?? [];
  if (!all.length) return [notice("", "This job's functions accumulate nothing.")];
  return [
    h(
      "section",
      { class: "card", "data-key": "accumulators" },
      h("h2", null, `Accumulators (${all.length})`),
      table(
        ["Name", "_Type", "Value, over all subtasks"],
        all.map((each) => ({ key: each.name, cells: [each.name, h("code", null, each.type), h("code", null, String(each.value))] })),
      ),
    ),
  ];
}
