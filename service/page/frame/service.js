/** Talking to the service; its problem documents become errors with sentences. */

const KEPT = "polyseme-key";

/** Why the service did not answer, in its own words. */
export class Refusal extends Error {
  constructor({ title, detail, hint, errors = [], status = 0 }) {
    super(detail || title);
    this.hint = hint ?? "";
    this.errors = errors;
    this.status = status;
  }
}

/** The reader's key, kept until the tab is closed. */
export const key = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  set: (value) => sessionStorage.setItem(KEPT, value),
};

/** Where a path of the service is, wherever the page itself is served. */
export function addressOf(path) {
  return new URL(path, document.baseURI).href.replace(/#.*$/, "");
}

/**
 * Ask; a body is posted as JSON. Gives the text of the answer, which the reader can save as it
 * came. Throws a Refusal, or an AbortError where a newer question overtook this one.
 */
export async function ask(path, body, signal) {
  const headers = { Accept: "application/json, application/problem+json" };
  if (body) headers["Content-Type"] = "application/json";
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  const method = body ? "POST" : "GET";
  let response, text;
  try {
    response = await fetch(addressOf(path), { method, headers, signal, body: body && JSON.stringify(body) });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({
      detail: "The service did not answer.",
      hint: "See whether it is still running and whether you are still connected, then try again.",
    });
  }
  if (!response.ok) throw new Refusal(problemOf(text, response.status));
  return text;
}

function problemOf(text, status) {
  try {
    return { ...JSON.parse(text), status };
  } catch {
    // A proxy's own page of HTML.
    return {
      status,
      detail: `Something between this page and the service answered with status ${status}.`,
      hint: "Try again in a moment.",
    };
  }
}
