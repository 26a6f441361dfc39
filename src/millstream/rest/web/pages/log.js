// Log files of the process that serves and, in a cluster, of its programs; a file is read again when it has grown.

import { ApiError, get } from "../api.js";
import { h } from "../dom.js";
import { bytes, moment } from "../format.js";
import { notice } from "../parts.js";

const MOST_LINES = 2000;
let kept = null;

export async function load({ id, query }) {
  let files;
  try {
    files = (await get("jobmanager/logs")).logs;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 405)) return { files: [] };
    throw error;
  }
  const file = files.find((each) => each.name === query.get("file")) ?? usual(files, id);
  if (!file) return { files: [] };
  const stamp = `${file.name} ${file.size} ${file.mtime}`;
  if (kept?.stamp !== stamp) kept = { stamp, text: String(await get(`jobmanager/logs/${encodeURIComponent(file.name)}`)) };
  return { files, file, text: kept.text };
}

/** The file that is shown first: of a job the one with its id, or the program's that was written to last. */
function usual(files, id) {
  const own = files.find((each) => id && each.name.includes(id));
  const programs = files.filter((each) => /^[0-9a-f]{32}/.test(each.name)).sort((one, other) => other.mtime - one.mtime);
  const server = files.find((each) => each.name === "dispatcher.log");
  return own ?? (id ? programs[0] : server) ?? files[0];
}

export function render(data, at) {
  const shown = show(data, at);
  return at.id ? shown : [h("h1", { "data-key": "title" }, "Log"), ...shown];
}

function show({ files, file, text }, { query, go }) {
  if (!file) return [notice("", "This server has no logs to show. A program's log is where it was started; a cluster shows its own and its programs'.")];
  const follow = query.get("follow") !== "no";
  const wanted = (query.get("find") ?? "").toLowerCase();
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  const found = wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
  const shown = found.slice(-MOST_LINES);
  const turn = (next) => go({ file: file.name, follow: follow ? "yes" : "no", find: wanted, ...next });
  if (follow) requestAnimationFrame(scrollDown);
  return [
    h(
      "p",
      { class: "row", "data-key": "choose" },
      h(
        "label",
        null,
        "File ",
        h(
          "select",
          { id: "file", onchange: (event) => turn({ file: event.target.value }) },
          files.map((each) => h("option", { value: each.name, selected: each.name === file.name }, `${each.name} (${bytes(each.size)})`)),
        ),
      ),
      h(
        "label",
        null,
        "Find ",
        h("input", { type: "search", id: "find-line", value: wanted, onchange: (event) => turn({ find: event.target.value }) }),
      ),
      h("button", { id: "follow", "aria-pressed": follow ? "true" : "false", onclick: () => turn({ follow: follow ? "no" : "yes" }) }, follow ? "Stop following" : "Follow"),
    ),
    h(
      "section",
      { class: "card", "data-key": "log" },
      h("p", { class: "quiet" }, `${file.name}, changed ${moment(file.mtime)}: ${describe(shown.length, found.length, lines.length, wanted)}`),
      h("pre", { class: "log", id: "log", tabindex: 0, "aria-label": "log" }, shown.join("\n")),
    ),
  ];
}

function describe(shown, found, all, wanted) {
  const last = shown < found ? `the last ${shown} of ` : "";
  return wanted ? `${last}${found} of ${all} lines` : `${last}${all} lines`;
}

function scrollDown() {
  const log = document.getElementById("log");
  if (log) log.scrollTop = log.scrollHeight;
}
