/** Facts as a list of names and values, nested as deeply as they are. */

import { h } from "../frame/elements.js";

const SHOWN = 40;

/** `[name, value]` pairs. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A JSON object as facts, without what is null or empty; of a long list its beginning. */
export function named(object) {
  const said = Object.entries(object).filter(([, value]) => value !== null && String(value) !== "");
  return facts(said.map(([name, value]) => [name.replaceAll("_", " "), valued(value)]));
}

function valued(value) {
  if (Array.isArray(value)) return listed(value);
  if (value !== null && typeof value === "object") return named(value);
  return String(value);
}

function listed(values) {
  const rest = values.length > SHOWN ? ` … and ${values.length - SHOWN} more` : "";
  const shown = values.slice(0, SHOWN);
  if (shown.some((value) => value !== null && typeof value === "object")) {
    return h("ul", { class: "listed" }, shown.map((value) => h("li", {}, line(value))), rest && h("li", {}, rest));
  }
  return shown.join(", ") + rest;
}

/** An object within a list: on one line where it is flat. */
function line(value) {
  if (value === null || typeof value !== "object") return String(value);
  const flat = Object.values(value).every((one) => one === null || typeof one !== "object");
  if (!flat) return valued(value);
  return Object.entries(value).map(([name, one]) => `${name.replaceAll("_", " ")} ${one ?? "–"}`).join(", ");
}
