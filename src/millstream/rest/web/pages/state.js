// What is in the keyed state of a running job, as of the last epoch: states, keys page by page, and one key looked up.

import { ApiError, gather, get } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { facts, notice, table } from "../parts.js";

const PAGE = 50;
let answer = null;

export async function load({ job, query }) {
  if (job["end-time"] > 0) return { ended: true };
  const base = `millstream/jobs/${job.jid}`;
  const place = placeOf(query);
  try {
    const { states } = await gather({ states: `${base}/states` });
    if (!place.operator || !place.state) return { operators: states?.operators ?? [] };
    const asked = new URLSearchParams({ ...place, limit: PAGE });
    return { operators: states?.operators ?? [], page: await get(`${base}/state/keys?${asked}`) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 401) throw error;
    return { operators: [], error: error.message };
  }
}

function placeOf(query) {
  return {
    operator: query.get("operator") ?? "",
    state: query.get("state") ?? "",
    subtask: Number(query.get("subtask") ?? 0),
    offset: Number(query.get("offset") ?? 0),
  };
}

export function render(data, { job, query, go, refresh }) {
  if (data.ended) {
    return [notice("", "The job has ended, and its state with it. What its checkpoints hold: millstream state ls PATH")];
  }
  const place = placeOf(query);
  return [
    data.error ? h("div", { "data-key": "error" }, notice("warn", h("span", null, data.error))) : null,
    h("section", { class: "card", "data-key": "states" }, h("h2", null, "States"), listStates(data.operators, place, job)),
    data.page ? listKeys(data.page, data.operators, place, go) : null,
    lookUp(job, place, refresh),
    answer?.jid === job.jid ? h("section", { class: "card", "data-key": "answer" }, shown(answer)) : null,
  ];
}

function listStates(operators, place, job) {
  const rows = operators.flatMap((operator) =>
    operator.states.map((state) => {
      const search = new URLSearchParams({ operator: operator.operator, state: state.name });
      return {
        key: `${operator.operator} ${state.name}`,
        chosen: operator.operator === place.operator && state.name === place.state,
        cells: [
          operator.name,
          h("code", null, operator.operator),
          h("a", { href: `#/jobs/${job.jid}/state?${search}` }, state.name),
          state.kind,
          operator.parallelism,
        ],
      };
    }),
  );
  if (!rows.length) return h("p", { class: "quiet" }, "No keyed state is known: a state is once a function has asked for it.");
  return table(["Operator", "Uid", "State", "Kind", "#Subtasks"], rows);
}

function listKeys(page, operators, place, go) {
  const operator = operators.find((each) => each.operator === place.operator);
  const move = (changes) => go("state", { ...place, ...changes });
  const last = place.offset + page.keys.length;
  return h(
    "section",
    { class: "card", "data-key": `keys ${place.operator} ${place.state}` },
    h("h2", null, `Keys of ${place.state}`),
    h(
      "p",
      { class: "row" },
      h(
        "label",
        null,
        "Subtask ",
        h(
          "select",
          { id: "subtask", onchange: (event) => move({ subtask: Number(event.target.value), offset: 0 }) },
          Array.from({ length: operator?.parallelism ?? 1 }, (_, index) =>
            h("option", { value: index, selected: index === place.subtask }, String(index)),
          ),
        ),
      ),
      h("button", { id: "before", disabled: place.offset === 0, onclick: () => move({ offset: Math.max(place.offset - PAGE, 0) }) }, "Before"),
      h("button", { id: "next", disabled: !page.more, onclick: () => move({ offset: place.offset + PAGE }) }, "Next"),
      h("span", { class: "quiet" }, page.keys.length ? `${number(place.offset + 1)} to ${number(last)}` : "none here"),
    ),
    page.keys.length
      ? table(
          ["Key", "Window", "_Type", "Value"],
          page.keys.map((each) => ({
            key: `${each.namespace ?? ""} ${each.key}`,
            cells: [h("code", null, each.key), each.namespace ?? "", h("code", null, each.type), h("code", null, each.value)],
          })),
        )
      : h("p", { class: "quiet" }, "This subtask has no keys here."),
    page.limited ? h("p", { class: "quiet" }, "There are more, which are not listed: look a key up by itself.") : null,
  );
}

function lookUp(job, place, refresh) {
  const ask = async (event) => {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(event.target).entries());
    try {
      answer = { ...form, jid: job.jid, found: await get(`millstream/jobs/${job.jid}/state?${new URLSearchParams(form)}`) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      answer = { ...form, jid: job.jid, error: error.message };
    }
    refresh();
  };
  const key = `ask ${place.operator} ${place.state}`; // a form of its own for each state, so that it begins with its names
  return h(
    "section",
    { class: "card", "data-key": key },
    h("h2", null, "What does a key have?"),
    h(
      "form",
      { class: "row", onsubmit: ask },
      h("label", null, "Operator (uid) ", h("input", { name: "operator", required: true, value: place.operator })),
      h("label", null, "State ", h("input", { name: "state", required: true, value: place.state })),
      h("label", null, "Key ", h("input", { name: "key", required: true, placeholder: "as Python writes it" })),
      h("button", { class: "main" }, "Look"),
    ),
  );
}

function shown(asked) {
  if (asked.error) return notice("bad", h("pre", null, asked.error));
  return facts([
    ["Operator", asked.operator],
    ["State", asked.state],
    ["Key", h("code", null, asked.key)],
    ["Type", h("code", null, asked.found.type)],
    ["Value", h("pre", null, asked.found.value)],
  ]);
}
