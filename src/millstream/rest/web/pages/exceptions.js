// Why attempts failed: what the user's code raised first, the newest failure on top.

import { get } from "../api.js";
import { h } from "../dom.js";
import { moment } from "../format.js";
import { notice } from "../parts.js";

export async function load({ job }) {
  return get(`jobs/${job.jid}/exceptions?maxExceptions=20`);
}

export function render(data) {
  const entries = data.exceptionHistory?.entries ?? [];
  if (!entries.length) return [notice("", "Nothing has failed.")];
  return [
    data.exceptionHistory.truncated ? notice("warn", "Only the last failures are kept.") : null,
    entries.map((each, index) =>
      h(
        "section",
        { class: "card", "data-key": `${each.timestamp}-${index}` },
        h("h2", null, firstLine(each)),
        h(
          "p",
          { class: "quiet" },
          [moment(each.timestamp), each.taskName, each.endpoint ?? each.location].filter(Boolean).join(" · "),
        ),
        h("details", { open: index === 0 }, h("summary", null, "Traceback"), h("pre", null, each.stacktrace)),
      ),
    ),
  ];
}

function firstLine(each) {
  const last = (each.stacktrace ?? "").trim().split("\n").filter((line) => /^\S/.test(line));
  return last.length ? last[last.length - 1].slice(0, 300) : each.exceptionName;
}
