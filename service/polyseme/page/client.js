/** The HTTP client: sends requests to the service and turns problem documents into errors. */

/**
 * `get()` and `set(value)` of a name in `localStorage` or `sessionStorage`; where the browser blocks
 * site data, the value lasts as long as the page is open.
 */
export function stored(storage, name) {
  let memory = "";
  return {
    get() {
      try {
        return globalThis[storage].getItem(name) ?? memory;
      } catch {
        return memory;
      }
    },
    set(value) {
      memory = value;
      try {
        globalThis[storage].setItem(name, value);
      } catch {
        // Site data are blocked.
      }
    },
  };
}

/** The API key, kept until the tab is closed. */
export const key = stored("sessionStorage", "polyseme-key");

/** Whether a text can be sent in an Authorization header. */
export const isSendableKey = (text) => /^[\u0021-\u007e]+$/.test(text);

/** A problem document, or another reason why there is no response. */
export class ServiceError extends Error {
  constructor({ title, detail, hint, errors, status = 0 }) {
    const textOf = (value) => (typeof value === "string" ? value : "");
    super(textOf(detail) || textOf(title) || `The service answered with status ${status}.`);
    this.hint = textOf(hint);
    this.errors = (Array.isArray(errors) ? errors : [])
      .map((error) => ({ pointer: textOf(error?.pointer), message: textOf(error?.message) }))
      .filter(({ message }) => message);
    this.status = status;
  }
}

/** The error for a response that has not the form that this page expects. */
export const unreadableResponse = () => new ServiceError({
  detail: "The response of the service cannot be read.",
  hint: "The service may be another version than this page. Reload the page.",
});

/** The URL of a path of the service, also behind a prefix of a proxy. */
function urlOf(path) {
  return new URL(path, document.baseURI).href.replace(/#.*$/, "");
}

/**
 * Send a request, a POST of JSON when there is a body, and return the text of the response.
 * Throws a ServiceError, or an AbortError when `signal` aborts.
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
      detail: "The service did not answer.",
      hint: "Check that it is running and that you are connected, then try again.",
    });
  }
  if (!response.ok) throw new ServiceError(problemOf(text, response));
  return text;
}

function problemOf(text, { status, headers }) {
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    // Not from the service: an HTML page of a proxy, for example.
  }
  if (problem === null || typeof problem !== "object") {
    return {
      status,
      detail: `A server between this page and the service answered with status ${status}.`,
      hint: "Try again in a moment.",
    };
  }
  let { hint } = problem;
  const seconds = Number(headers.get("Retry-After"));
  if ([429, 503].includes(status) && seconds > 0) {
    hint = `Try again in ${seconds} second${seconds === 1 ? "" : "s"}.`;
  } else if (status === 422 && Array.isArray(problem.errors) && problem.errors.length) {
    hint = "";
  }
  return { ...problem, status, hint };
}

/** The curl command for a request; it names the key as `$POLYSEME_KEY`. */
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
