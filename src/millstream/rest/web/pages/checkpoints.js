// Checkpoints: how many, how long, how large, and those that failed.

import { gather } from "../api.js";
import { h } from "../dom.js";
import { bytes, duration, moment, number } from "../format.js";
import { lineChart } from "../charts.js";
import { badge, facts, notice, table } from "../parts.js";

export async function load({ job }) {
  return gather({ all: `jobs/${job.jid}/checkpoints`, config: `jobs/${job.jid}/checkpoints/config` });
}

export function render({ all, config }) {
  if (!all || !config) {
    return [notice("", "This job makes no checkpoints. Set execution.checkpointing.interval to have them.")];
  }
  const ended = all.history.slice().reverse();
  const chosen = (pick) => ended.filter((each) => each.status === "COMPLETED").map((each) => [each.trigger_timestamp, pick(each)]);
  return [
    h(
      "div",
      { class: "figures", "data-key": "figures" },
      ...Object.entries({
        completed: all.counts.completed,
        "in progress": all.counts.in_progress,
        failed: all.counts.failed,
        restored: all.counts.restored,
      }).map(([name, value]) => h("div", { class: "figure" }, h("b", null, number(value)), h("span", null, name))),
    ),
    h(
      "div",
      { class: "charts", "data-key": "charts" },
      lineChart("Duration", chosen((each) => each.end_to_end_duration), duration),
      lineChart("Size written", chosen((each) => each.checkpointed_size ?? each.state_size), bytes),
    ),
    h("section", { class: "card", "data-key": "latest" }, h("h2", null, "Latest"), facts(latest(all.latest))),
    h(
      "section",
      { class: "card", "data-key": "history" },
      h("h2", null, "History"),
      table(
        ["#Id", "_Status", "_Kind", "_Triggered", "#Duration", "#Written", "#Whole", "Path or reason"],
        all.history.map((each) => ({
          key: `${each.id}`,
          cells: [
            each.id,
            badge(each.status),
            each.is_savepoint ? "savepoint" : "checkpoint",
            moment(each.trigger_timestamp),
            duration(each.end_to_end_duration),
            bytes(each.checkpointed_size),
            bytes(each.state_size),
            each.failure_message ?? each.external_path ?? "",
          ],
        })),
      ),
    ),
    h(
      "section",
      { class: "card", "data-key": "config" },
      h("h2", null, "Settings"),
      facts([
        ["Mode", config.mode],
        ["Interval", duration(config.interval)],
        ["Time-out", duration(config.timeout)],
        ["Pause between", duration(config.min_pause)],
        ["State", `${config.state_backend}, ${config.checkpoint_storage}`],
        ["Failures that are borne", number(config.tolerable_failed_checkpoints)],
      ]),
    ),
  ];
}

function latest(all) {
  const pairs = [];
  for (const [name, key] of [
    ["Completed", "completed"],
    ["Savepoint", "savepoint"],
    ["Failed", "failed"],
    ["Restored", "restored"],
  ]) {
    const each = all[key];
    if (!each) pairs.push([name, "none"]);
    else {
      const at = each.trigger_timestamp ?? each.restore_timestamp;
      pairs.push([name, `${each.id}, ${moment(at)}${each.external_path ? `, ${each.external_path}` : ""}`]);
    }
  }
  return pairs;
}
