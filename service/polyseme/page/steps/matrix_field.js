/** A matrix to edit as in a spreadsheet, and the numbers in text that is typed or pasted. */

import { uniqueId, h } from "../elements.js";

export class MatrixField {
  /**
   * `onchange(rows)` is called with the matrix when every cell is a number, else with null;
   * `onpaste(rows)` is called with a pasted matrix.
   */
  constructor(title, { onchange, onpaste, buttons = [] }) {
    const id = uniqueId("matrix");
    this.title = title;
    this.report = onchange;
    this.replace = onpaste;
    this.table = h("table", { class: "matrix-field", "aria-labelledby": id });
    this.wrong = h("p", { class: "wrong", role: "status", id: `${id}-wrong`, hidden: true });
    this.element = h(
      "div",
      { class: "matrix-edit", role: "group", "aria-labelledby": id },
      h("div", { class: "buttons" }, h("h3", { id }, title), buttons),
      h("div", { class: "wide" }, this.table),
      this.wrong,
    );
    this.table.addEventListener("keydown", (event) => this.#press(event));
    this.table.addEventListener("paste", (event) => this.#paste(event));
    this.table.addEventListener("focusin", ({ target }) => target.select?.());
    this.table.addEventListener("change", ({ target }) => this.#change(target));
  }

  /** Show a matrix with the names of its rows and columns, without errors. */
  show(rows, rowNames, columnNames) {
    const at = this.#place(document.activeElement);
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

  /** Mark the matrix with a sentence about an error; an empty one clears the mark. */
  showError(sentence) {
    this.wrong.textContent = sentence;
    this.wrong.hidden = !sentence;
    this.element.classList.toggle("refused", Boolean(sentence));
    this.element.toggleAttribute("data-refused", Boolean(sentence));
  }

  /** Whether a cell is not a number. */
  get invalid() {
    return Boolean(this.table.querySelector("[aria-invalid]"));
  }

  #place(element) {
    return this.table.contains(element) && element.dataset.row
      ? [Number(element.dataset.row), Number(element.dataset.column)] : null;
  }

  #input(row, column) {
    return this.table.querySelector(`input[data-row="${row}"][data-column="${column}"]`);
  }

  #change(input) {
    const { number, wrong } = numberOf(input.value);
    if (wrong) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", this.wrong.id);
      this.showError(wrong);
      return this.report(null);
    }
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    const [row, column] = this.#place(input);
    this.rows[row][column] = number;
    const other = this.table.querySelector("[aria-invalid]");
    this.showError(other ? numberOf(other.value).wrong ?? "" : "");
    return this.report(other ? null : this.rows.map((line) => [...line]));
  }

  #paste(event) {
    const text = event.clipboardData.getData("text");
    if (!isBlock(text)) return;
    event.preventDefault();
    const { rows, wrong } = blockOf(text);
    if (wrong) return this.showError(wrong);
    this.replace(rows);
  }

  #press(event) {
    const at = this.#place(event.target);
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
    // In the last row, Enter accepts what was typed.
    else if (event.key === "Enter") this.#change(event.target);
  }
}

/** The most rows and columns of a matrix. */
export const MOST = 64;

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const ONE_COMMA = /^[+−-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5. A comma separates numbers,"
  + " with a space after it between whole numbers.";

/** The number in a text: `{number}`, or `{wrong}` with a sentence. */
function numberOf(text) {
  const said = text.trim().replaceAll("−", "-");
  if (ONE_COMMA.test(said)) return { wrong: "Write decimals with a point, as in 0.5." };
  const number = Number(said);
  if (!said) return { wrong: "A number is missing." };
  if (!NUMBER.test(said)) return { wrong: `“${text.trim().slice(0, 20)}” is not a number.` };
  if (!Number.isFinite(number)) return { wrong: "This number is too large." };
  return { number };
}

/** Whether a pasted text is more than one number. */
function isBlock(text) {
  return /[\s,;[\]]/.test(text.trim()) && !ONE_COMMA.test(text.trim());
}

/**
 * The matrix in a pasted text, `{rows}` or `{wrong}`: lines of numbers separated by tabs, semicolons, commas
 * or spaces, JSON, or NumPy's output.
 */
export function blockOf(text) {
  const cut = text.includes("[") ? bracketed(text) : lines(text);
  if (cut.wrong) return cut;
  const rows = [];
  for (const [i, words] of cut.rows.entries()) {
    const row = words.map(numberOf);
    const bad = row.find(({ wrong }) => wrong);
    if (bad) return { wrong: `Row ${i}: ${bad.wrong}` };
    if (rows.length && row.length !== rows[0].length) {
      return { wrong: `Row ${i} has ${row.length} numbers where row 0 has ${rows[0].length}.` };
    }
    rows.push(row.map(({ number }) => number));
  }
  if (!rows.length) return { wrong: "The pasted text contains no numbers." };
  if (rows.length > MOST || rows[0].length > MOST) {
    return { wrong: `A matrix has at most ${MOST} rows and ${MOST} columns here.` };
  }
  return { rows };
}

/** The rows of `[[0.1, 0.2], [0.3, 0.4]]` or `[[0.1 0.2]\n [0.3 0.4]]`: the innermost brackets. */
function bracketed(text) {
  const inner = [...text.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row.trim()).filter(Boolean);
  if (inner.some((row) => decimalComma(row))) return { wrong: COMMA };
  return { rows: inner.map((row) => row.split(/\s*,\s*|\s+/)) };
}

function lines(text) {
  const full = text.split(/\r?\n/).map((line) => line.replace(/[ \r]+$/, "")).filter((line) => line.trim());
  const separator = [/\t/, /;/].find((one) => full.some((line) => one.test(line)));
  if (separator) {
    if (full.some((line) => line.split(separator).some((word) => /\d,\d/.test(word)))) return { wrong: COMMA };
    return { rows: full.map((line) => line.split(separator)) };
  }
  if (full.some(decimalComma) || full.every((line) => ONE_COMMA.test(line.trim()))) return { wrong: COMMA };
  return { rows: full.map((line) => line.trim().split(/\s*,\s*|\s+/)) };
}

/** Whether commas are decimal: `0,1 0,2`. */
function decimalComma(line) {
  const words = line.trim().split(/\s+/);
  return words.length > 1 && words.every((word) => /^[+−-]?\d+,\d+$/.test(word));
}
