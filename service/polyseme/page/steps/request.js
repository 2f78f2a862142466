/** What the state asks of `POST v1/trace`; what is malformed falls back. */

import { modelAndCase } from "../frame/model_and_case.js";
import { MOST } from "./matrix_paste.js";

/** The example that a state names, counted from 1; the first where it names none. */
export function exampleOf(state, examples) {
  return examples[Number(state.example) - 1] ?? examples[0];
}

/** Where the numbers come from. */
export function sourceOf(state) {
  return ["sentence", "numbers"].includes(state.source) ? state.source : "example";
}

/** The request of own numbers; the current example's where there are none or they are no request. */
export function numbersOf(state, examples) {
  return parsed(state.numbers) ?? exampleOf(state, examples).request;
}

/** The body of the request, or null where there is nothing to ask about. */
export function requestOf(state, examples) {
  const source = sourceOf(state);
  if (source === "example") return exampleOf(state, examples).request;
  if (source === "numbers") return numbersOf(state, examples);
  if (!state.text.trim()) return null;
  const layer = /^\d{1,3}$/.test(state.layer) ? Number(state.layer) : 0;
  return { text: state.text, layer, ...modelAndCase(state) };
}

/** Places after the point: 0 to 10, else 4. */
export function placesOf(state) {
  return /^(\d|10)$/.test(state.decimals) ? Number(state.decimals) : 4;
}

const PROJECTED = ["queries", "keys", "values"];
const FIELDS = new Set(["tokens", "embeddings", "weights", ...PROJECTED, "heads", "scale", "convention"]);

function parsed(text) {
  try {
    const request = JSON.parse(text);
    return isRequest(request) ? request : null;
  } catch {
    return null;
  }
}

/** Whether it has the shape that the editor edits; whether it fits together the service says. */
function isRequest(request) {
  if (typeof request !== "object" || request === null || Array.isArray(request)) return false;
  const { tokens, embeddings, weights = {}, heads = 1, scale = true, convention = "row" } = request;
  if (!Object.keys(request).every((name) => FIELDS.has(name))) return false;
  if (!isWords(tokens)) return false;
  if (typeof weights !== "object" || weights === null) return false;
  if (!Object.entries(weights).every(([name, rows]) =>
    ["query", "key", "value", "output"].includes(name) && isMatrix(rows))) return false;
  if (!Number.isInteger(heads) || typeof scale !== "boolean") return false;
  if (!["row", "column"].includes(convention)) return false;
  if (embeddings !== undefined) return isMatrix(embeddings) && PROJECTED.every((name) => !(name in request));
  return PROJECTED.every((name) => isMatrix(request[name])) && !("weights" in request) && !("convention" in request);
}

function isWords(tokens) {
  return Array.isArray(tokens) && tokens.length > 0 && tokens.length <= MOST
    && tokens.every((token) => typeof token === "string");
}

function isMatrix(rows) {
  return Array.isArray(rows) && rows.length > 0 && rows.length <= MOST && rows.every((row) =>
    Array.isArray(row) && row.length > 0 && row.length <= MOST && row.length === rows[0].length
    && row.every((number) => typeof number === "number" && Number.isFinite(number)));
}
