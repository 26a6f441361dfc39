// Epochs: how long each took on which level, how much it read, and what bounded it.

import { get } from "../api.js";
import { barChart, lineChart } from "../charts.js";
import { h } from "../dom.js";
import { bytes, duration, moment, number, short, watermark } from "../format.js";
import { notice, table } from "../parts.js";

const BOUNDS = {
  INPUT: "sources had no more",
  SOURCE_BUDGET: "sources were asked for no more",
  SUBTASK_BUDGET: "subtasks reached their limit",
  PRESSURE: "held back: others have not kept up",
  END: "the input has ended",
};

const LEGEND = [
  ["part0", "first level"],
  ["part1", "second"],
  ["part2", "third"],
  ["part3", "writing state"],
  ["part4", "planning, carrying, committing"],
];

export async function load({ job }) {
  return get(`millstream/jobs/${job.jid}/epochs`);
}

export function render(data) {
  const epochs = data.epochs;
  if (!epochs.length) return [notice("", "No epoch has ended yet.")];
  const levels = Math.max(...epochs.map((each) => each.levels_ms.length));
  const bars = epochs.slice(-160).map((each) => ({
    key: `${each.attempt}-${each.epoch}`,
    title: `epoch ${each.epoch}: ${duration(each.total_ms)}, ${number(each.records)} records, ${BOUNDS[each.bound] ?? each.bound}`,
    parts: parts(each),
  }));
  const each = (pick) => epochs.map((epoch) => [epoch.began_ms, pick(epoch)]);
  return [
    h(
      "section",
      { class: "card", "data-key": "bars" },
      h("h2", null, `The last ${bars.length} of ${number(data.total)} epochs, by level`),
      barChart(bars, { label: "duration of epochs" }),
      h(
        "p",
        { class: "legend" },
        LEGEND.slice(0, Math.min(levels, 3)).map(([part, name]) => swatch(part, name)),
        levels > 3 ? " and again, from below" : null,
        LEGEND.slice(3).map(([part, name]) => swatch(part, name)),
      ),
    ),
    h(
      "div",
      { class: "charts", "data-key": "charts" },
      lineChart("Records read a second", rates(epochs), short),
      lineChart("Duration", each((epoch) => epoch.total_ms), duration),
      lineChart("Records that wait", each((epoch) => epoch.held), short),
      lineChart("Sent between slots", each((epoch) => epoch.sent_bytes), bytes),
    ),
    h(
      "section",
      { class: "card", "data-key": "table" },
      h("h2", null, "Last epochs"),
      table(
        ["#Epoch", "_Began", "#Duration", "#Levels", "#Records", "#Waiting", "#Sent", "Why it ended", "_Watermark", "Checkpoint"],
        epochs
          .slice(-25)
          .reverse()
          .map((epoch) => ({
            key: `${epoch.attempt}-${epoch.epoch}`,
            cells: [
              epoch.epoch,
              moment(epoch.began_ms),
              duration(epoch.total_ms),
              epoch.levels_ms.map((level) => duration(level)).join(" · "),
              number(epoch.records),
              number(epoch.held),
              bytes(epoch.sent_bytes),
              BOUNDS[epoch.bound] ?? epoch.bound,
              watermark(epoch.watermark_ms),
              epoch.checkpoint ? "yes" : "",
            ],
          })),
      ),
    ),
  ];
}

function swatch(part, name) {
  return [h("span", { class: `swatch ${part}` }), name];
}

function parts(epoch) {
  const levels = epoch.levels_ms.map((size, index) => [`part${index % 3}`, size]);
  const known = epoch.levels_ms.reduce((sum, size) => sum + size, 0) + epoch.writing_ms;
  return [...levels, ["part3", epoch.writing_ms], ["part4", Math.max(epoch.total_ms - known, 0)]];
}

/** Records a second, over stretches of a second at least: a single epoch says little. */
function rates(epochs) {
  const points = [];
  let records = 0;
  let began = epochs[0].began_ms;
  for (const epoch of epochs) {
    const until = epoch.began_ms + epoch.total_ms;
    records += epoch.records;
    if (until - began >= 1000) {
      points.push([until, (records * 1000) / (until - began)]);
      records = 0;
      began = until;
    }
  }
  return points;
}
