/** A matrix editor like a spreadsheet, and the parser of typed and pasted numbers. */

import { uniqueId, h } from "../elements.js";

export class MatrixField {
  /**
   * `onchange(rows)` is called with the matrix, or with null if a cell is not a number;
   * `onpaste(rows)` is called with a pasted matrix.
   */
  constructor(title, { onchange, onpaste, buttons = [] }) {
    const id = uniqueId("matrix");
    this.title = title;
    this.notify = onchange;
    this.replaceMatrix = onpaste;
    this.table = h("table", { class: "matrix-field", "aria-labelledby": id });
    this.error = h("p", { class: "error", role: "status", id: `${id}-error`, hidden: true });
    this.element = h(
      "div",
      { class: "matrix-edit", role: "group", "aria-labelledby": id },
      h("div", { class: "buttons" }, h("h3", { id }, title), buttons),
      h("div", { class: "wide" }, this.table),
      this.error,
    );
    this.table.addEventListener("keydown", (event) => this.#press(event));
    this.table.addEventListener("paste", (event) => this.#paste(event));
    this.table.addEventListener("focusin", ({ target }) => target.select?.());
    this.table.addEventListener("change", ({ target }) => this.#change(target));
  }

  /** Show a matrix with the names of its rows and columns; clear the error. */
  show(rows, rowNames, columnNames) {
    const at = this.#indices(document.activeElement);
    this.rows = rows.map((row) => [...row]);
    this.table.replaceChildren(
      h("thead", {}, h("tr", {}, h("td", {}), columnNames.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row, i) => h(
        "tr",
        {},
        h("th", { scope: "row" }, h("bdi", {}, rowNames[i])),
        row.map((number, j) => h("td", {}, h("input", {
          type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", value: number,
          "data-row": i, "data-column": j,
          "aria-label": `${this.title}, row ${rowNames[i]}, column ${columnNames[j]}`,
        }))),
      ))),
    );
    this.showError("");
    if (at) (this.#input(at[0], at[1]) ?? this.#input(0, 0))?.focus();
  }

  /** Show an error message and mark the matrix; an empty message clears the mark. */
  showError(sentence) {
    this.error.textContent = sentence;
    this.error.hidden = !sentence;
    this.element.classList.toggle("rejected", Boolean(sentence));
    this.element.toggleAttribute("data-rejected", Boolean(sentence));
  }

  /** Whether a cell is not a number. */
  get invalid() {
    return Boolean(this.table.querySelector("[aria-invalid]"));
  }

  #indices(element) {
    return this.table.contains(element) && element.dataset.row
      ? [Number(element.dataset.row), Number(element.dataset.column)] : null;
  }

  #input(row, column) {
    return this.table.querySelector(`input[data-row="${row}"][data-column="${column}"]`);
  }

  #change(input) {
    const { number, error } = parseNumber(input.value);
    if (error) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", this.error.id);
      this.showError(error);
      return this.notify(null);
    }
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    const [row, column] = this.#indices(input);
    this.rows[row][column] = number;
    const other = this.table.querySelector("[aria-invalid]");
    this.showError(other ? parseNumber(other.value).error ?? "" : "");
    return this.notify(other ? null : this.rows.map((line) => [...line]));
  }

  #paste(event) {
    const text = event.clipboardData.getData("text");
    if (!isMatrixText(text)) return;
    event.preventDefault();
    const { rows, error } = parseMatrix(text);
    if (error) return this.showError(error);
    this.replaceMatrix(rows);
  }

  #press(event) {
    const at = this.#indices(event.target);
    if (!at || event.altKey || event.ctrlKey || event.metaKey) return;
    const { selectionStart, selectionEnd, value } = event.target;
    const whole = selectionStart === 0 && selectionEnd === value.length;
    const moves = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [event.shiftKey ? -1 : 1, 0],
      ...((whole || selectionEnd === 0) && { ArrowLeft: [0, -1] }),
      ...((whole || selectionStart === value.length) && { ArrowRight: [0, 1] }),
    };
    const by = moves[event.key];
    if (!by) return;
    event.preventDefault();
    const next = this.#input(at[0] + by[0], at[1] + by[1]);
    if (next) next.focus();
    // Without a next cell, Enter commits the typed number.
    else if (event.key === "Enter") this.#change(event.target);
  }
}

/** The maximum number of rows and columns of a matrix. */
export const MAX_SIZE = 64;

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const ONE_COMMA = /^[+−-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5. A comma separates two numbers;"
  + " if they are whole numbers, write a space after it.";

/** Parse a number: return `{number}`, or `{error}` with a sentence. */
function parseNumber(text) {
  const trimmed = text.trim().replaceAll("−", "-");
  if (ONE_COMMA.test(trimmed)) return { error: "Write decimals with a point, as in 0.5." };
  const number = Number(trimmed);
  if (!trimmed) return { error: "A number is missing." };
  if (!NUMBER.test(trimmed)) return { error: `“${text.trim().slice(0, 20)}” is not a number.` };
  if (!Number.isFinite(number)) return { error: "This number is too large." };
  return { number };
}

/** Whether a pasted text has separators or brackets. The comma of a single `0,5` is no separator. */
function isMatrixText(text) {
  return /[\s,;[\]]/.test(text.trim()) && !ONE_COMMA.test(text.trim());
}

/**
 * Parse a pasted matrix: JSON, NumPy's output, or lines of numbers separated by tabs, semicolons, commas or
 * spaces. Return `{rows}` or `{error}`.
 */
export function parseMatrix(text) {
  const parsed = text.includes("[") ? bracketed(text) : lines(text);
  if (parsed.error) return parsed;
  const rows = [];
  for (const [i, words] of parsed.rows.entries()) {
    const row = words.map(parseNumber);
    const bad = row.find(({ error }) => error);
    if (bad) return { error: `Row ${i}: ${bad.error}` };
    if (rows.length && row.length !== rows[0].length) {
      return { error: `Row ${i} has ${row.length} numbers, but row 0 has ${rows[0].length}.` };
    }
    rows.push(row.map(({ number }) => number));
  }
  if (!rows.length) return { error: "The pasted text contains no numbers." };
  if (rows.length > MAX_SIZE || rows[0].length > MAX_SIZE) {
    return { error: `A matrix has at most ${MAX_SIZE} rows and ${MAX_SIZE} columns here.` };
  }
  return { rows };
}

/** Split `[[0.1, 0.2], [0.3, 0.4]]` or `[[0.1 0.2]\n [0.3 0.4]]` into rows, the innermost brackets. */
function bracketed(text) {
  const inner = [...text.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row.trim()).filter(Boolean);
  if (inner.some((row) => decimalComma(row))) return { error: COMMA };
  return { rows: inner.map((row) => row.split(/\s*,\s*|\s+/)) };
}

function lines(text) {
  const nonempty = text.split(/\r?\n/).map((line) => line.replace(/[ \r]+$/, "")).filter((line) => line.trim());
  const separator = [/\t/, /;/].find((one) => nonempty.some((line) => one.test(line)));
  if (separator) {
    if (nonempty.some((line) => line.split(separator).some((word) => /\d,\d/.test(word)))) return { error: COMMA };
    return { rows: nonempty.map((line) => line.split(separator)) };
  }
  if (nonempty.some(decimalComma) || nonempty.every((line) => ONE_COMMA.test(line.trim()))) return { error: COMMA };
  return { rows: nonempty.map((line) => line.trim().split(/\s*,\s*|\s+/)) };
}

/** Whether the commas of a line are decimal commas: `0,1 0,2`. */
function decimalComma(line) {
  const words = line.trim().split(/\s+/);
  return words.length > 1 && words.every((word) => /^[+−-]?\d+,\d+$/.test(word));
}
