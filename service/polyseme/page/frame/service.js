/** Talking to the service; its problem documents become errors with sentences. */

import { kept } from "./keeping.js";

const LATER = new Set([429, 503]);

/** Why the service did not answer, in its own words. */
export class Refusal extends Error {
  constructor({ title, detail, hint, errors, status = 0 }) {
    super(sentence(detail) || sentence(title) || `The service answered with status ${status}.`);
    this.hint = sentence(hint);
    this.errors = Array.isArray(errors) ? errors.map(fieldError).filter(Boolean) : [];
    this.status = status;
  }
}

const sentence = (text) => (typeof text === "string" ? text : "");

function fieldError(error) {
  const message = sentence(error?.message);
  return message && { pointer: sentence(error.pointer), message };
}

/** An answer that is not what the service says it is: of another version, or of a proxy. */
export const unreadable = () => new Refusal({
  detail: "The service's answer cannot be read.",
  hint: "It may be of another version than this page: load the page again.",
});

/** The reader's key, kept until the tab is closed. */
export const key = kept("sessionStorage", "polyseme-key");

/** Whether a text can be sent as a key at all. */
export const sendable = (text) => /^[\u0021-\u007e]+$/.test(text);

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
  if (!response.ok) throw new Refusal(problemOf(text, response));
  return text;
}

function problemOf(text, { status, headers }) {
  let document = null;
  try {
    document = JSON.parse(text);
  } catch {
    // A proxy's own page of HTML.
  }
  if (document === null || typeof document !== "object") {
    return {
      status,
      detail: `Something between this page and the service answered with status ${status}.`,
      hint: "Try again in a moment.",
    };
  }
  return { ...document, status, hint: hintOf(document, status, headers) };
}

/** What to do, for who sees neither headers nor the document itself. */
function hintOf({ hint, errors }, status, headers) {
  const seconds = Number(headers.get("Retry-After"));
  if (LATER.has(status) && seconds > 0) {
    return `Try again in ${seconds} second${seconds === 1 ? "" : "s"}.`;
  }
  return status === 422 && Array.isArray(errors) && errors.length ? "" : hint;
}
