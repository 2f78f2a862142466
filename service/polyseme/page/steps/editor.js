/**
 * The editor for the reader's own numbers: a text area for the words and for each matrix, typed or pasted from a
 * spreadsheet, JSON or NumPy.
 */

import { afterPause, h, labeled, selectBox, setText, uniqueId } from "../elements.js";
import { counted } from "../text.js";

const WEIGHTS = ["query", "key", "value", "output"], PROJECTED = ["queries", "keys", "values"];
const TITLES = {
  tokens: "Words", embeddings: "Embeddings X", queries: "Queries Q", keys: "Keys K", values: "Values V",
  query: "Query weights Wq", key: "Key weights Wk", value: "Value weights Wv", output: "Output weights Wo",
};
/** The field in the pointer of an error: `/embeddings/0/1`, `/weights/key`, `/heads`. */
const POINTER = /^\/(?:weights\/)?(\w+)/;

export class StepEditor {
  /** `onchange(request)` is called with a request, or with null if a matrix is not valid. */
  constructor(onchange) {
    this.notify = onchange;
    this.kind = selectBox([["embeddings", "embeddings"], ["projected", "queries, keys, values"]], "embeddings",
      () => this.#startFrom());
    this.heads = h("input", { type: "number", min: "1", class: "narrow" });
    this.scale = h("input", { type: "checkbox" });
    this.convention = selectBox([["row", "x·W (rows)"], ["column", "W·x (columns)"]], "row", () => {});
    this.conventionField = labeled("Convention", this.convention);
    this.areas = Object.fromEntries(Object.keys(TITLES).map((name) => [name, h("textarea", {
      class: "number", rows: 4, dir: "auto", spellcheck: "false", autocomplete: "off", "aria-describedby": uniqueId("error"),
      placeholder: WEIGHTS.includes(name) && "none",
    })]));
    this.errors = Object.fromEntries(Object.entries(this.areas).map(([name, area]) =>
      [name, h("p", { class: "error", role: "status", id: area.getAttribute("aria-describedby") })]));
    this.fields = Object.fromEntries(Object.entries(this.areas).map(([name, area]) =>
      [name, h("div", {}, labeled(TITLES[name], area), this.errors[name])]));
    this.element = h(
      "div",
      {
        class: "editor",
        oninput: afterPause(() => this.#change()),
      },
      h("div", { class: "controls" }, labeled("Start from", this.kind), labeled("Heads", this.heads),
        this.conventionField, h("label", {}, this.scale, " divide by √k")),
      h("p", { class: "muted" }, "Write the words in one line, or each in a line of its own. Type or paste a matrix: JSON, NumPy's output, or lines of"
        + " numbers separated by tabs, commas, semicolons or spaces."),
      h("div", { class: "fields" }, Object.values(this.fields)),
    );
  }

  /** Show a request, unless it is the last one that was typed or shown: do not overwrite a matrix that is not valid. */
  show(request) {
    if (JSON.stringify(request) === this.typed) return;
    const { tokens, heads = 1, scale = true, convention = "row", weights, ...matrices } = request;
    this.typed = JSON.stringify(request);
    this.invalid = false;
    this.tokens = tokens;
    this.kind.value = request.embeddings ? "embeddings" : "projected";
    this.heads.value = heads;
    this.scale.checked = scale;
    this.convention.value = convention;
    this.areas.tokens.value = tokens.join("\n");
    const all = { ...matrices, ...weights };
    for (const name of [...PROJECTED, ...WEIGHTS, "embeddings"]) {
      this.areas[name].value = all[name] ? matrixText(all[name]) : "";
    }
    this.#showFields();
  }

  /** Show the fields of the chosen kind; those of the other kind keep their text. */
  #showFields() {
    const projected = this.kind.value === "projected";
    this.conventionField.hidden = projected;
    for (const name of ["embeddings", ...WEIGHTS]) this.fields[name].hidden = projected;
    for (const name of PROJECTED) this.fields[name].hidden = !projected;
    this.markErrors([]);
  }

  /** Change the kind. Empty matrices start with the numbers of the other kind. */
  #startFrom() {
    const projected = this.kind.value === "projected";
    const { value: start } = this.areas[projected ? "embeddings" : "queries"];
    for (const name of projected ? PROJECTED : ["embeddings"]) this.areas[name].value ||= start;
    this.#showFields();
  }

  #change() {
    const request = this.#read();
    this.invalid = !request;
    if (request) this.typed = JSON.stringify(request);
    this.notify(request);
  }

  /** Return the request as typed; mark invalid matrices and return null if there are any. */
  #read() {
    this.markErrors([]);
    const { value: words } = this.areas.tokens;
    // Words that were not edited stay as they are: one may be empty, or have several lines.
    if (words !== this.tokens?.join("\n")) this.tokens = words.trim().split(words.trim().includes("\n") ? "\n" : /[\s,;]+/);
    if (!this.tokens.join("")) this.#mark("tokens", "Type the words.");
    const request = { tokens: this.tokens, heads: Number(this.heads.value), scale: this.scale.checked };
    const read = (names) => Object.fromEntries(names.map((name) => [name, this.#matrix(name)]));
    if (this.kind.value === "projected") {
      Object.assign(request, read(PROJECTED));
    } else {
      const weights = read(WEIGHTS.filter((name) => this.areas[name].value.trim()));
      Object.assign(request, read(["embeddings"]), { weights, convention: this.convention.value });
    }
    return this.element.querySelector("[aria-invalid=true]") ? null : request;
  }

  #matrix(name) {
    const { rows, error } = parseMatrix(this.areas[name].value);
    if (error) this.#mark(name, error);
    return rows;
  }

  /** Mark the fields that the service's errors name, and no others. */
  markErrors(errors) {
    for (const name of Object.keys(TITLES)) this.#mark(name, "");
    this.heads.setAttribute("aria-invalid", "false");
    const fields = { ...this.areas, heads: this.heads };
    for (const { pointer } of errors) fields[POINTER.exec(pointer)?.[1]]?.setAttribute("aria-invalid", "true");
  }

  #mark(name, message) {
    setText(this.errors[name], message);
    this.areas[name].setAttribute("aria-invalid", String(Boolean(message)));
  }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const DECIMAL_COMMA = /^[+-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5. A comma separates two numbers;"
  + " if they are whole numbers, write a space after it.";

/** Return a matrix as lines of numbers. */
const matrixText = (rows) => rows.map((row) => row.join(" ")).join("\n");

/**
 * Parse a matrix: JSON, NumPy's output, or lines of numbers separated by tabs, semicolons, commas or spaces. Return
 * `{rows, digits}`, where `digits` are the numbers of decimals, or `{error}` with a sentence.
 */
export function parseMatrix(text) {
  // Spreadsheets and web pages have spaces and digits of other widths.
  const ascii = text.normalize("NFKC").replaceAll("−", "-");
  // Of JSON and NumPy's output, the innermost brackets are the rows.
  const inner = [...ascii.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row);
  const lines = (inner.length ? inner : ascii.split("\n")).map((line) => line.trim()).filter(Boolean);
  if (!lines.length) return { error: "There are no numbers." };
  const isDecimal = (word, _, words) => DECIMAL_COMMA.test(word) && (words.length > 1 || !inner.length);
  if (lines.some((line) => line.split(/[\s;]+/).every(isDecimal))) return { error: COMMA };
  const rows = lines.map((line) => line.split(/[ \r\n]*[\t;,][ \r\n]*|[ \r\n]+/));
  for (const [i, row] of rows.entries()) {
    const error = row.map(numberError).find(Boolean);
    if (error) return { error: `Row ${i}: ${error}` };
    if (row.length !== rows[0].length) {
      return { error: `Row ${i} has ${counted(row.length, "number")}, but row 0 has ${rows[0].length}.${/\d,\d/.test(ascii) ? ` ${COMMA}` : ""}` };
    }
  }
  return { rows: rows.map((row) => row.map(Number)), digits: rows.map((row) => row.map(decimalsIn)) };
}

/** Return the number of decimals that a number is written with: 2 in 0.50, 3 in 2e-3. */
export function decimalsIn(word) {
  const [mantissa, exponent = 0] = word.split(/e/i);
  return Math.max(0, (mantissa.split(".")[1]?.length ?? 0) - exponent);
}

/** Return a sentence if a word is not a finite number. */
function numberError(word) {
  if (!word) return "A number is missing.";
  if (!NUMBER.test(word)) return `“${word.slice(0, 20)}” is not a number.`;
  return Number.isFinite(Number(word)) ? "" : "This number is too large.";
}
