// What runs, and what has run.

import { gather } from "../api.js";
import { h } from "../dom.js";
import { duration, moment, number } from "../format.js";
import { badge, table } from "../parts.js";

export async function load() {
  return gather({ overview: "overview", jobs: "jobs/overview", starting: "millstream/starting" });
}

const RUNNING = new Set(["INITIALIZING", "CREATED", "RUNNING", "FAILING", "CANCELLING", "RESTARTING", "RECONCILING"]);

export function render({ overview, jobs, starting }, { query }) {
  const all = jobs.jobs.slice().sort((one, other) => other["start-time"] - one["start-time"]);
  const wanted = (query.get("find") ?? "").toLowerCase();
  const found = all.filter((job) => `${job.name} ${job.jid}`.toLowerCase().includes(wanted));
  const running = found.filter((job) => RUNNING.has(job.state));
  const ended = found.filter((job) => !RUNNING.has(job.state));
  return [
    h("h1", { "data-key": "title" }, "Jobs"),
    h(
      "div",
      { class: "figures", "data-key": "figures" },
      figure("running", overview["jobs-running"]),
      figure("finished", overview["jobs-finished"]),
      figure("cancelled", overview["jobs-cancelled"]),
      figure("failed", overview["jobs-failed"]),
      figure("slots in use", overview["slots-total"] - overview["slots-available"]),
      figure("executors", overview.taskmanagers),
    ),
    h(
      "p",
      { "data-key": "find" },
      h("label", null, "Find ", h("input", { type: "search", id: "find", placeholder: "name or id", value: wanted, oninput })),
    ),
    programs(starting ?? []),
    section("Running", running, starting?.length ? "No job runs yet." : "No job runs. Start one: millstream run job.py"),
    section("Ended", ended, "No job has ended yet."),
  ];
}

function oninput(event) {
  const text = event.target.value;
  history.replaceState(null, "", text ? `#/?find=${encodeURIComponent(text)}` : "#/");
  window.dispatchEvent(new Event("hashchange"));
}

function figure(name, value) {
  return h("div", { class: "figure" }, h("b", null, number(value)), h("span", null, name));
}

function section(title, jobs, nothing) {
  return h(
    "section",
    { class: "card", "data-key": title },
    h("h2", null, `${title} (${jobs.length})`),
    jobs.length ? listJobs(jobs) : h("p", { class: "quiet" }, nothing),
  );
}

/** A cluster's programs that have submitted no job yet: importing their packages and their slots take a while. */
function programs(all) {
  if (!all.length) return null;
  return h(
    "section",
    { class: "card", "data-key": "starting" },
    h("h2", null, `Starting (${all.length})`),
    h("p", { class: "quiet" }, "Programs without a job: they have submitted none yet, or go on behind their last."),
    table(
      ["Program", "_Status", "_Since", "What is said of it"],
      all.map((each) => ({
        key: each.program_id,
        cells: [each.name, badge(each.status), moment(each.since_ms), each.message],
      })),
    ),
  );
}

function listJobs(jobs) {
  return table(
    ["Name", "_Status", "_Started", "#Duration", "#Subtasks", "_Id"],
    jobs.map((job) => ({
      key: job.jid,
      cells: [
        h("a", { href: `#/jobs/${job.jid}/graph` }, job.name),
        badge(job.state),
        moment(job["start-time"]),
        duration(job.duration),
        `${job.tasks.running} / ${job.tasks.total}`,
        h("code", null, job.jid.slice(0, 8)),
      ],
    })),
  );
}
