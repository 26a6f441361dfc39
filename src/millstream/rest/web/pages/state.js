// What a key has in an operator's state, as of the last epoch.

import { ApiError, get } from "../api.js";
import { h } from "../dom.js";
import { facts, notice } from "../parts.js";

let answer = null;

export async function load() {
  return null;
}

export function render(_, { job, refresh }) {
  const operators = (job.plan?.nodes ?? []).map((node) => node.description);
  const ask = async (event) => {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(event.target).entries());
    try {
      answer = { ...form, found: await get(`millstream/jobs/${job.jid}/state?${new URLSearchParams(form)}`) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      answer = { ...form, error: error.message };
    }
    refresh();
  };
  return [
    h(
      "section",
      { class: "card", "data-key": "ask" },
      h("h2", null, "What does a key have?"),
      h(
        "form",
        { class: "row", onsubmit: ask },
        h("label", null, "Operator (uid) ", h("input", { name: "operator", required: true, list: "operators" })),
        h("datalist", { id: "operators" }, operators.map((name) => h("option", { value: name }))),
        h("label", null, "State ", h("input", { name: "state", required: true })),
        h("label", null, "Key ", h("input", { name: "key", required: true, placeholder: "as Python writes it" })),
        h("button", { class: "main" }, "Look"),
      ),
    ),
    answer ? h("section", { class: "card", "data-key": "answer" }, shown(answer)) : null,
  ];
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
