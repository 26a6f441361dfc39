// Asks the REST API. A token is kept for the tab only.

const TOKEN = "millstream-token";

export class ApiError extends Error {
  constructor(status, messages) {
    super(messages.join("\n"));
    this.status = status;
  }
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

async function ask(method, path, body) {
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== "GET") headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, ["The server does not answer. It may have ended, or be starting anew."]);
  }
  const type = response.headers.get("Content-Type") ?? "";
  const answer = type.includes("json") ? await response.json() : await response.text();
  if (!response.ok) {
    const said = Array.isArray(answer?.errors) ? answer.errors : [`${response.status} ${response.statusText}`];
    throw new ApiError(response.status, said);
  }
  return answer;
}

export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, body);
export const change = (path, body) => ask("PATCH", path, body);

/** Several answers by name; one that does not exist is null. */
export async function gather(paths) {
  const names = Object.keys(paths);
  const answers = await Promise.all(
    names.map((name) =>
      get(paths[name]).catch((error) => {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }),
    ),
  );
  return Object.fromEntries(names.map((name, index) => [name, answers[index]]));
}

let paths = null;

/** Whether the server has a path, as its OpenAPI document has it. */
export async function has(path) {
  paths ??= get("openapi.json").then((document) => new Set(Object.keys(document.paths)));
  try {
    return (await paths).has(path);
  } catch {
    paths = null;
    return false;
  }
}

/** Begin an asynchronous operation and wait for its end; returns what it gave. */
export async function operate(path, body, method = "POST") {
  const { "request-id": id } = await ask(method, path, body);
  const kind = path.replace(/\?.*$/, "").replace(/\/stop$/, "/savepoints");
  for (;;) {
    const answer = await get(`${kind}/${id}`);
    if (answer.status?.id !== "IN_PROGRESS") {
      const cause = answer.operation?.["failure-cause"];
      if (cause) throw new ApiError(500, [cause["stack-trace"] ?? cause.class ?? "it failed"]);
      return answer.operation ?? {};
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
