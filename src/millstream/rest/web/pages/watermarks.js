// Event time of each split, and who holds it back.

import { get } from "../api.js";
import { h } from "../dom.js";
import { duration, moment, watermark } from "../format.js";
import { notice, table } from "../parts.js";

export async function load({ job }) {
  return get(`millstream/jobs/${job.jid}/watermarks`);
}

export function render(data) {
  const facts = data.facts;
  if (!facts.length) return [notice("", "This job has no event time: no source makes watermarks.")];
  const wrong = facts.filter((fact) => fact.reason);
  return [
    h("p", { "data-key": "job" }, "The job's watermark: ", h("strong", null, watermark(data.watermark_ms))),
    wrong.map((fact) =>
      h(
        "div",
        { class: "notice warn", role: "status", "data-key": `wrong ${place(fact)}` },
        h("strong", null, place(fact)),
        h("div", null, fact.reason),
        fact.hint ? h("div", { class: "quiet" }, fact.hint) : null,
      ),
    ),
    h(
      "section",
      { class: "card", "data-key": "facts" },
      table(
        ["Split", "Operator", "#Subtask", "_Watermark", "_Largest timestamp", "_Last record", "#Behind", "State"],
        facts.map((fact) => ({
          key: place(fact),
          chosen: fact.holds_back,
          cells: [
            fact.split ?? "–",
            fact.operator,
            fact.subtask,
            watermark(fact.watermark_ms),
            moment(fact.event_time_ms),
            moment(fact.last_record_ms),
            duration(fact.behind_ms),
            [
              fact.holds_back ? "holds the job back" : null,
              fact.idle ? "idle" : null,
              fact.held_by_alignment ? "waits for others (alignment)" : null,
            ]
              .filter(Boolean)
              .join(", "),
          ],
        })),
      ),
    ),
  ];
}

function place(fact) {
  return `${fact.split ?? "no split"} in subtask ${fact.subtask} of ${fact.operator}`;
}
