// The options of a job, with where each value comes from.

import { get } from "../api.js";
import { h } from "../dom.js";
import { table } from "../parts.js";

export async function load({ job }) {
  return get(`millstream/jobs/${job.jid}/config`);
}

export function render(data, { query, go }) {
  const wanted = (query.get("find") ?? "").toLowerCase();
  const all = query.get("all") === "yes";
  const found = data.options.filter(
    (each) => (all || each.origin !== "default") && `${each.key} ${each.value}`.toLowerCase().includes(wanted),
  );
  return [
    h(
      "p",
      { class: "row", "data-key": "find" },
      h(
        "label",
        null,
        "Find ",
        h("input", {
          type: "search",
          id: "find",
          value: wanted,
          oninput: (event) => go("configuration", { find: event.target.value, all: all ? "yes" : "no" }),
        }),
      ),
      h(
        "button",
        { id: "all", onclick: () => go("configuration", { find: wanted, all: all ? "no" : "yes" }) },
        all ? "Only what was set" : "All, defaults too",
      ),
    ),
    h(
      "section",
      { class: "card", "data-key": "options" },
      found.length
        ? table(
            ["Option", "Value", "From"],
            found.map((each) => ({ key: each.key, cells: [h("code", null, each.key), String(each.value ?? ""), each.origin] })),
          )
        : h("p", { class: "quiet" }, "No option fits."),
    ),
  ];
}
