// Where slots live.

import { gather } from "../api.js";
import { h } from "../dom.js";
import { bytes, moment, number } from "../format.js";
import { table } from "../parts.js";

export async function load() {
  return gather({ managers: "taskmanagers" });
}

export function render({ managers }) {
  const all = managers?.taskmanagers ?? [];
  return [
    h("h1", { "data-key": "title" }, "Executors"),
    h(
      "section",
      { class: "card", "data-key": "all" },
      all.length
        ? table(
            ["Id", "Address", "#Slots", "#Free", "#Memory", "Last seen"],
            all.map((each) => ({
              key: each.id,
              cells: [
                h("code", null, each.id),
                each.path,
                number(each.slotsNumber),
                number(each.freeSlots),
                bytes(each.hardware?.physicalMemory),
                moment(each.timeSinceLastHeartbeat),
              ],
            })),
          )
        : h("p", { class: "quiet" }, "No job has slots."),
    ),
  ];
}
