/** The HTTP client: sends requests to the service and throws errors for problem documents. */

/**
 * Return `get()` and `set(value)` for an item of `localStorage` or `sessionStorage`. If the browser blocks
 * site data, the value is in memory and lasts until the page is closed.
 */
export function stored(storage, name) {
  let memory = "";
  try {
    memory = globalThis[storage].getItem(name) ?? "";
  } catch {
    // The browser blocks site data.
  }
  return {
    get: () => memory,
    set(value) {
      memory = value;
      try {
        globalThis[storage].setItem(name, value);
      } catch {
        // The value lasts until the page is closed.
      }
    },
  };
}

/** The API key, kept until the tab is closed. */
export const key = stored("sessionStorage", "polyseme-key");

/** Messages of the service that name its fields, and what they are on the page. */
const WORDING = [
  [/^`weights\.(\w+)`: takes vectors/, "The $1 weights take vectors"],
  [/^`weights\.\w+`: (keys|values) have (\d+) columns, but (\w+) have (\d+)\.$/, "The number of columns of the $1 is $2, but that of the $3 is $4."],
  [/^`(\w+)`: has (\d+) rows for (\d+) tokens\.$/, "The number of words is $3, but the number of rows of the $1 is $2."],
  [/^`word`: is not in the vocabulary/, "The word is not in the vocabulary of the model"],
  [/^`(?:posi|nega)tive\[\d+\]`: is not in the vocabulary/, "A word of the sum is not in the vocabulary of the model"],
  [/^The request: the sum of the unit vectors is zero\.$/, "The sum is zero, so it has no neighbors."],
  [/^The request: the result is not finite\.$/, "The numbers are too large to compute with."],
  [/^`share`: the last residual .*/, "This model has no factor of the static vector: choose “as in the model”."],
  [/^`word`: does not occur in the texts as a token\.$/, "The sentences do not have this as a word. Check the spelling, and type one word without marks."],
  [/^The word has too many occurrences: (\d+), over the limit \w+ of (\d+)\.$/, "The word occurs $1 times, but at most $2 are allowed: paste fewer sentences."],
  [/^.* has too many tokens: (\d+), over the limit \w+ of (\d+)\.$/, "The text has $1 words, but at most $2 are allowed."],
];

/** Return a problem document in the words of the page. */
function reworded(problem) {
  const [pattern, text] = WORDING.find(([each]) => each.test(problem.detail)) ?? [];
  return pattern ? { ...problem, detail: problem.detail.replace(pattern, text), hint: "" } : problem;
}

/** An error of a request: a problem document, or the reason why there is no response. */
export class ServiceError extends Error {
  constructor({ detail, hint = "", errors = [], status = 0 }) {
    super(detail);
    Object.assign(this, { hint, errors, status });
  }
}

/** Return the error for a response in a form that this page does not expect. */
export const unreadableResponse = () => new ServiceError({
  detail: "The response of the service cannot be read.",
  hint: "The service may have been updated since this page was loaded. Reload the page.",
});

/** Return the absolute URL of a path that is relative to the page; a proxy may serve the page under a prefix. */
function urlOf(path) {
  return new URL(path, document.baseURI).href.replace(/#.*$/, "");
}

/**
 * Send a request and return the text of the response. A request with a `body` is a POST of JSON.
 * Throw a ServiceError, or an AbortError if `signal` aborts.
 */
export async function fetchText(path, body, signal) {
  const headers = { Accept: "application/json, application/problem+json" };
  if (body) headers["Content-Type"] = "application/json";
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  const method = body ? "POST" : "GET";
  let response, text;
  try {
    response = await fetch(urlOf(path), { method, headers, signal, body: body && JSON.stringify(body) });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError({
      detail: "The service did not respond.",
      hint: "Check that it is running and that you are connected, then try again.",
    });
  }
  if (!response.ok) throw new ServiceError(problemOf(text, response));
  return text;
}

/** Return the content of a JSON file of the page. */
export const readJson = async (name) => JSON.parse(await fetchText(`page/${name}`));

/** Parse JSON from a proxy, an address or the storage; return undefined if the text is not JSON. */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function problemOf(text, { status, headers }) {
  const problem = parseJson(text);
  if (typeof problem?.detail !== "string") {
    // The response is not from the service; it may be an HTML page of a proxy.
    return {
      status,
      detail: `A server between this page and the service responded with status ${status}.`,
      hint: "Try again in a moment.",
    };
  }
  const seconds = [429, 503].includes(status) ? Number(headers.get("Retry-After")) : 0;
  const wait = seconds > 0 ? `Try again in ${seconds} second${seconds === 1 ? "" : "s"}.` : "";
  const hint = status === 422 && problem.errors?.length ? "" : wait || problem.hint;
  return reworded({ ...problem, status, hint });
}

/** Return the curl command for a request. The command contains `$POLYSEME_KEY` instead of the key. */
export function curl(path, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const url = urlOf(path);
  const parts = [`curl -s ${/^[\w:/.,%-]+$/.test(url) ? url : quoted(url)}`];
  if (key.get()) parts.push(`-H "Authorization: Bearer $POLYSEME_KEY"`);
  if (body) {
    parts.push("-H 'Content-Type: application/json'");
    parts.push(`-d ${quoted(JSON.stringify(body))}`);
  }
  return parts.join(" \\\n  ");
}
