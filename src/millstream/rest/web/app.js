// The page: a heading, one page below it, asked for anew every two seconds while it is seen.
//
//   #/                     jobs
//   #/jobs/<id>/<tab>      one job; what a tab has chosen stands behind a question mark

import { ApiError, change, get, has, keepToken, operate } from "./api.js";
import { h, patch } from "./dom.js";
import { duration, moment } from "./format.js";
import { badge, confirm, notice } from "./parts.js";
import * as accumulators from "./pages/accumulators.js";
import * as checkpoints from "./pages/checkpoints.js";
import * as configuration from "./pages/configuration.js";
import * as exceptions from "./pages/exceptions.js";
import * as executors from "./pages/executors.js";
import * as graph from "./pages/graph.js";
import * as log from "./pages/log.js";
import * as metrics from "./pages/metrics.js";
import * as overview from "./pages/overview.js";
import * as state from "./pages/state.js";
import * as timeline from "./pages/timeline.js";
import * as watermarks from "./pages/watermarks.js";

const EVERY_MS = 2000;
const TABS = {
  graph: ["Graph", graph],
  timeline: ["Epochs", timeline],
  watermarks: ["Watermarks", watermarks],
  checkpoints: ["Checkpoints", checkpoints],
  exceptions: ["Exceptions", exceptions],
  metrics: ["Metrics", metrics],
  accumulators: ["Accumulators", accumulators],
  state: ["State", state],
  configuration: ["Configuration", configuration],
  log: ["Log", log],
};
const PLAIN = { executors, log };
const RUNNING = new Set(["INITIALIZING", "CREATED", "RUNNING", "FAILING", "RESTARTING"]);

const page = document.getElementById("page");
const top = document.getElementById("top");
let turn = 0;
let asking = 0;
let said = null;

function route() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const query = new URLSearchParams(search ?? "");
  const [kind, id, tab] = path.split("/").map(decodeURIComponent);
  return { kind: kind || "", id, tab: tab in TABS ? tab : "graph", query };
}

async function show() {
  const mine = (turn += 1);
  const at = route();
  asking += 1;
  try {
    const nodes = at.kind === "jobs" ? await showJob(at) : await showPlain(PLAIN[at.kind] ?? overview, at);
    if (mine === turn) patch(page, [said, nodes]);
  } catch (error) {
    if (mine === turn) patch(page, [said, trouble(error)]);
  } finally {
    asking -= 1;
    if (mine === turn) page.removeAttribute("aria-busy");
  }
}

/** Show at once which page was chosen; what is on it comes when the server has answered. */
function choose() {
  page.setAttribute("aria-busy", "true");
  const at = route();
  for (const link of document.querySelectorAll("nav.tabs a")) {
    if (link.getAttribute("href") === `#/jobs/${at.id}/${at.tab}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function showPlain(module, at) {
  const data = await module.load(at);
  document.title = "millstream";
  return module.render(data, { ...at, go: (query) => goTo(at.kind, query) });
}

async function showJob(at) {
  const module = TABS[at.tab][1];
  const job = await get(`jobs/${at.id}`);
  const move = at.tab === "log" ? (query) => go(at.id, "log", query) : (tab, query) => go(at.id, tab, query);
  const given = { ...at, job, go: move, refresh: show };
  const [data, rescales] = await Promise.all([module.load(given), has("/jobs/{jobid}/rescaling")]);
  document.title = `${job.name} – millstream`;
  return [heading(job, at, rescales), module.render(data, given)];
}

function go(id, tab, query = {}) {
  goTo(`jobs/${id}/${tab}`, query);
}

function goTo(path, query) {
  const search = new URLSearchParams(query).toString();
  location.hash = `#/${path}${search ? `?${search}` : ""}`;
}

function heading(job, at, rescales) {
  const runs = RUNNING.has(job.state);
  return h(
    "div",
    { "data-key": "heading" },
    h(
      "div",
      { class: "row" },
      h("h1", null, job.name),
      badge(job.state),
      h("span", { class: "quiet grow" }, `since ${moment(job["start-time"])}, ${duration(job.duration)} `, h("code", null, job.jid)),
      runs ? h("button", { class: "main", id: "savepoint", onclick: () => act(savepoint, job) }, "Savepoint") : null,
      runs ? h("button", { id: "stop", onclick: () => act(stop, job) }, "Stop behind a savepoint") : null,
      runs && rescales ? h("button", { id: "rescale", onclick: () => act(rescale, job) }, "Rescale") : null,
      runs ? h("button", { class: "danger", id: "cancel", onclick: () => act(cancel, job) }, "Cancel") : null,
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": "of this job" },
      Object.entries(TABS).map(([key, [name]]) =>
        h("a", { href: `#/jobs/${job.jid}/${key}`, "aria-current": key === at.tab ? "page" : null }, name),
      ),
    ),
  );
}

async function act(action, job) {
  try {
    said = (await action(job)) ?? said;
  } catch (error) {
    said = notice("bad", error.message);
    said.setAttribute("data-key", "said");
  }
  show();
}

function tell(text) {
  const node = notice("", text);
  node.setAttribute("data-key", "said");
  return node;
}

async function savepoint(job) {
  const values = await confirm(
    "Make a savepoint?",
    h("p", null, h("label", null, "Directory ", h("input", { name: "directory", placeholder: "the configured one", size: 34 }))),
    "Make it",
  );
  if (!values) return null;
  said = tell("The savepoint is being made …");
  show();
  const done = await operate(`jobs/${job.jid}/savepoints`, { "target-directory": values.directory || null, "cancel-job": false });
  return tell(`Savepoint: ${done.location}`);
}

async function stop(job) {
  const values = await confirm(
    "Stop this job behind a savepoint?",
    [
      h("p", null, h("label", null, "Directory ", h("input", { name: "directory", placeholder: "the configured one", size: 34 }))),
      h("p", null, h("label", null, h("input", { type: "checkbox", name: "drain" }), " end all windows and timers first, for good")),
    ],
    "Stop it",
  );
  if (!values) return null;
  said = tell("The job is being stopped …");
  show();
  const done = await operate(`jobs/${job.jid}/stop`, { targetDirectory: values.directory || null, drain: values.drain === "on" });
  return tell(`Stopped; savepoint: ${done.location}`);
}

async function rescale(job) {
  const values = await confirm(
    "Rescale this job?",
    [
      h("p", null, "It goes on from a checkpoint with another parallelism."),
      h("p", null, h("label", null, "Parallelism ", h("input", { type: "number", name: "parallelism", min: 1, max: job.maxParallelism > 0 ? job.maxParallelism : null, required: true, size: 6 }))),
    ],
    "Rescale it",
  );
  if (!values) return null;
  said = tell("The job is being rescaled …");
  show();
  await operate(`jobs/${job.jid}/rescaling?parallelism=${encodeURIComponent(values.parallelism)}`, null, "PATCH");
  return tell(`The job runs with parallelism ${values.parallelism}.`);
}

async function cancel(job) {
  const values = await confirm("Cancel this job?", h("p", null, "It ends at once; what it has not committed is removed."), "Cancel it");
  if (!values) return null;
  await change(`jobs/${job.jid}?mode=cancel`);
  return tell("The job is being cancelled.");
}

function trouble(error) {
  if (error instanceof ApiError && error.status === 401) return askForToken();
  if (error instanceof ApiError && error.status === 404) {
    return notice("warn", error.message, " ", h("a", { href: "#/" }, "To all jobs"));
  }
  if (!(error instanceof ApiError)) console.error(error);
  return notice("bad", error.message);
}

function askForToken() {
  const form = h(
    "form",
    {
      class: "card",
      "data-key": "token",
      onsubmit: (event) => {
        event.preventDefault();
        keepToken(new FormData(event.target).get("token"));
        show();
      },
    },
    h("h2", null, "A token is wanted"),
    h("p", null, h("label", null, "Token ", h("input", { type: "password", name: "token", autocomplete: "off" }))),
    h("button", { class: "main" }, "Go on"),
  );
  return form;
}

const THEME = "millstream-theme";

function drawTop() {
  const at = route();
  const dark = document.documentElement.dataset.theme === "dark";
  patch(top, [
    h("a", { class: "brand", href: "#/" }, "millstream"),
    h(
      "nav",
      { "aria-label": "pages" },
      h("a", { href: "#/", "aria-current": at.kind === "" ? "page" : null }, "Jobs"),
      h("a", { href: "#/executors", "aria-current": at.kind === "executors" ? "page" : null }, "Executors"),
      h("a", { href: "#/log", "aria-current": at.kind === "log" ? "page" : null }, "Log"),
    ),
    h("button", { id: "theme", onclick: turnTheme, "aria-pressed": dark ? "true" : "false" }, dark ? "Light" : "Dark"),
  ]);
}

function turnTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, theme);
  document.documentElement.dataset.theme = theme;
  drawTop();
}

function begin() {
  const prefers = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = localStorage.getItem(THEME) ?? prefers;
  drawTop();
  show();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind "#" says which page is shown
    page.focus();
  });
  window.addEventListener("hashchange", () => {
    said = null;
    drawTop();
    choose();
    show();
  });
  setInterval(() => {
    // While an answer is waited for no other one is asked for: a slow server would never be waited for long enough.
    if (!asking && !document.hidden && !document.querySelector("dialog[open]")) show();
  }, EVERY_MS);
}

begin();
