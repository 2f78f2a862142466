/**
 * The editor for the reader's own numbers: a text area for the words and for each matrix, typed or pasted from a
 * spreadsheet, JSON or NumPy.
 */

import { h, labeled, selectBox, uniqueId } from "../elements.js";

const WEIGHTS = ["query", "key", "value", "output"], PROJECTED = ["queries", "keys", "values"];
const TITLES = {
  tokens: "Words", embeddings: "Embeddings X", queries: "Queries Q", keys: "Keys K", values: "Values V",
  query: "Query weights Wq", key: "Key weights Wk", value: "Value weights Wv", output: "Output weights Wo",
};
/** The field in the pointer of an error: `/embeddings/0/1`, `/weights/key`, `/heads`. */
const POINTER = /^\/(?:weights\/)?(\w+)/;

/** Milliseconds after the last key until the typed numbers are computed with. */
const PAUSE = 300;

export class StepEditor {
  /** `onchange(request)` is called with a request, or with null if a matrix is not valid. */
  constructor(onchange) {
    this.notify = onchange;
    const change = () => this.#change();
    const type = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(change, PAUSE);
    };
    this.kind = selectBox([["embeddings", "embeddings"], ["projected", "queries, keys, values"]], "embeddings",
      () => this.#startFrom());
    this.heads = h("input", { type: "number", min: "1", class: "narrow", oninput: type, onchange: change });
    this.scale = h("input", { type: "checkbox", onchange: change });
    this.convention = selectBox([["row", "x·W (rows)"], ["column", "W·x (columns)"]], "row", change);
    this.conventionField = labeled("Convention", this.convention);
    this.fields = Object.fromEntries(Object.entries(TITLES).map(([name, title]) => [name, new TextField(title, type, change)]));
    for (const name of WEIGHTS) this.fields[name].area.placeholder = "none";
    this.element = h(
      "div",
      { class: "editor" },
      h("div", { class: "controls" }, labeled("Start from", this.kind), labeled("Heads", this.heads),
        this.conventionField, h("label", {}, this.scale, " divide by √k")),
      h("p", { class: "muted" }, "Write each word in a line of its own. Type or paste a matrix: JSON, NumPy's output, or lines of"
        + " numbers separated by tabs, commas, semicolons or spaces."),
      h("div", { class: "fields" }, Object.values(this.fields).map(({ element }) => element)),
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
    this.fields.tokens.area.value = tokens.join("\n");
    const all = { ...matrices, ...weights };
    for (const name of [...PROJECTED, ...WEIGHTS, "embeddings"]) {
      this.fields[name].area.value = all[name] ? matrixText(all[name]) : "";
    }
    this.#showFields();
  }

  /** Show the fields of the chosen kind; those of the other kind keep their text. */
  #showFields() {
    const projected = this.kind.value === "projected";
    this.conventionField.hidden = projected;
    for (const name of ["embeddings", ...WEIGHTS]) this.fields[name].element.hidden = projected;
    for (const name of PROJECTED) this.fields[name].element.hidden = !projected;
    this.#clearErrors();
  }

  /** Change the kind. Empty matrices start with the numbers of the other kind. */
  #startFrom() {
    const projected = this.kind.value === "projected";
    const start = this.fields[projected ? "embeddings" : "queries"].area.value;
    for (const name of projected ? PROJECTED : ["embeddings"]) this.fields[name].area.value ||= start;
    this.#showFields();
    this.#change();
  }

  #change() {
    clearTimeout(this.timer);
    const request = this.#read();
    this.invalid = !request;
    if (request) this.typed = JSON.stringify(request);
    this.notify(request);
  }

  /** Return the request as typed; mark invalid matrices and return null if there are any. */
  #read() {
    this.#clearErrors();
    const { tokens } = this.fields;
    // Words that were not edited stay as they are: one may be empty, or have several lines.
    if (tokens.area.value !== this.tokens.join("\n")) this.tokens = tokens.area.value.replace(/\n+$/, "").split("\n");
    const request = { tokens: this.tokens, heads: Number(this.heads.value), scale: this.scale.checked };
    const read = (names) => Object.fromEntries(names.map((name) => [name, this.#matrix(name)]));
    if (this.kind.value === "projected") {
      Object.assign(request, read(PROJECTED));
    } else {
      const weights = read(WEIGHTS.filter((name) => this.fields[name].area.value.trim()));
      Object.assign(request, read(["embeddings"]), { weights, convention: this.convention.value });
    }
    return this.element.querySelector("[aria-invalid]") ? null : request;
  }

  #matrix(name) {
    const { rows, error } = parseMatrix(this.fields[name].area.value);
    if (error) this.fields[name].showError(error);
    return rows;
  }

  /** Mark the fields that the service's errors name, and no others. */
  markErrors(errors) {
    this.#clearErrors();
    for (const { pointer, message } of errors) {
      const name = POINTER.exec(pointer)?.[1];
      this.fields[name]?.showError(`${TITLES[name]} ${message}.`);
      if (name === "heads") this.heads.setAttribute("aria-invalid", "true");
    }
  }

  #clearErrors() {
    for (const field of Object.values(this.fields)) field.showError("");
    this.heads.removeAttribute("aria-invalid");
  }
}

/** A text area with a label and an error message. */
class TextField {
  constructor(title, oninput, onchange) {
    this.error = h("p", { class: "error", role: "status", id: uniqueId("error") });
    this.area = h("textarea", {
      class: "number", rows: 4, dir: "auto", spellcheck: "false", autocomplete: "off",
      "aria-describedby": this.error.id, oninput, onchange,
    });
    this.element = h("div", {}, labeled(title, this.area), this.error);
  }

  /** Show an error message and mark the text; an empty message clears the mark. */
  showError(message) {
    this.error.textContent = message;
    if (message) this.area.setAttribute("aria-invalid", "true");
    else this.area.removeAttribute("aria-invalid");
  }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const DECIMAL_COMMA = /^[+−-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5. A comma separates two numbers;"
  + " if they are whole numbers, write a space after it.";

/** Return a matrix as lines of numbers. */
const matrixText = (rows) => rows.map((row) => row.join(" ")).join("\n");

/**
 * Parse a matrix: JSON, NumPy's output, or lines of numbers separated by tabs, semicolons, commas or spaces. Return
 * `{rows}`, or `{error}` with a sentence.
 */
export function parseMatrix(text) {
  const { lines, error } = text.includes("[") ? bracketedLines(text) : plainLines(text);
  if (error) return { error };
  if (!lines.length) return { error: "There are no numbers." };
  const rows = [];
  for (const [i, words] of lines.entries()) {
    const wrong = words.map(numberError).find(Boolean);
    if (wrong) return { error: `Row ${i}: ${wrong}` };
    if (words.length !== lines[0].length) {
      return { error: `Row ${i} has ${words.length} numbers, but row 0 has ${lines[0].length}.` };
    }
    rows.push(words.map((word) => Number(withAsciiMinus(word))));
  }
  return { rows };
}

const withAsciiMinus = (word) => word.trim().replaceAll("−", "-");

/** Return a sentence if a word is not a finite number. */
function numberError(word) {
  const text = withAsciiMinus(word);
  if (!text) return "A number is missing.";
  if (!NUMBER.test(text)) return `“${word.trim().slice(0, 20)}” is not a number.`;
  return Number.isFinite(Number(text)) ? "" : "This number is too large.";
}

/** Split `[[0.1, 0.2], [0.3, 0.4]]` or `[[0.1 0.2]\n [0.3 0.4]]` into the words of the innermost brackets. */
function bracketedLines(text) {
  const inner = [...text.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row.trim()).filter(Boolean);
  return inner.some(hasDecimalCommas) ? { error: COMMA } : { lines: inner.map((row) => row.split(/\s*,\s*|\s+/)) };
}

function plainLines(text) {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/[ \r]+$/, "")).filter((line) => line.trim());
  const separator = [/\t/, /;/].find((each) => lines.some((line) => each.test(line)));
  if (separator) {
    return /\d,\d/.test(text) ? { error: COMMA } : { lines: lines.map((line) => line.split(separator)) };
  }
  const ambiguous = lines.length > 0 && lines.every((line) => DECIMAL_COMMA.test(line.trim()));
  if (ambiguous || lines.some(hasDecimalCommas)) return { error: COMMA };
  return { lines: lines.map((line) => line.trim().split(/\s*,\s*|\s+/)) };
}

/** Whether the commas of a line are decimal commas: `0,1 0,2`. */
function hasDecimalCommas(line) {
  const words = line.trim().split(/\s+/);
  return words.length > 1 && words.every((word) => DECIMAL_COMMA.test(word));
}
