/** A matrix that is edited in place, as in a spreadsheet. */

import { freshId, h } from "../frame/elements.js";
import { blockOf, isBlock, numberOf } from "./matrix_paste.js";

export class MatrixField {
  /**
   * `onchange(rows)` is called with a whole matrix whenever every cell is a number, and
   * `onchange(null)` where one is not; `onpaste(rows)` with a pasted block.
   */
  constructor(title, { onchange, onpaste, buttons = [] }) {
    const id = freshId("matrix");
    this.title = title;
    this.tell = onchange;
    this.take = onpaste;
    this.table = h("table", { class: "matrix-field", "aria-labelledby": id });
    this.wrong = h("p", { class: "wrong", role: "status", id: `${id}-wrong`, hidden: true });
    this.element = h(
      "div",
      { class: "matrix-edit", role: "group", "aria-labelledby": id },
      h("div", { class: "buttons" }, h("h3", { id }, title), buttons),
      h("div", { class: "wide" }, this.table),
      this.wrong,
    );
    this.table.addEventListener("keydown", (event) => this.#move(event));
    this.table.addEventListener("paste", (event) => this.#paste(event));
    this.table.addEventListener("focusin", ({ target }) => target.select?.());
    this.table.addEventListener("change", ({ target }) => this.#changed(target));
  }

  /** Show a matrix; the names of its rows and columns lead. What is wrong is forgotten. */
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
    this.say("");
    if (at) (this.#input(at[0], at[1]) ?? this.#input(0, 0))?.focus();
  }

  /** What is wrong with the matrix, in a sentence; marks it, too. */
  say(sentence) {
    this.wrong.textContent = sentence;
    this.wrong.hidden = !sentence;
    this.element.classList.toggle("refused", Boolean(sentence));
    this.element.toggleAttribute("data-refused", Boolean(sentence));
  }

  /** Whether a cell is no number. */
  get broken() {
    return Boolean(this.table.querySelector("[aria-invalid]"));
  }

  #place(element) {
    return this.table.contains(element) && element.dataset.row
      ? [Number(element.dataset.row), Number(element.dataset.column)] : null;
  }

  #input(row, column) {
    return this.table.querySelector(`input[data-row="${row}"][data-column="${column}"]`);
  }

  #changed(input) {
    const { number, wrong } = numberOf(input.value);
    if (wrong) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", this.wrong.id);
      this.say(wrong);
      return this.tell(null);
    }
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    const [row, column] = this.#place(input);
    this.rows[row][column] = number;
    const other = this.table.querySelector("[aria-invalid]");
    this.say(other ? numberOf(other.value).wrong ?? "" : "");
    return this.tell(other ? null : this.rows.map((line) => [...line]));
  }

  #paste(event) {
    const text = event.clipboardData.getData("text");
    if (!isBlock(text)) return;
    event.preventDefault();
    const { rows, wrong } = blockOf(text);
    if (wrong) return this.say(wrong);
    this.take(rows);
  }

  #move(event) {
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
    // At the last row Enter still takes what was typed.
    else if (event.key === "Enter") this.#changed(event.target);
  }
}
