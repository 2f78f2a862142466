/** The card of one step: what it is called, how it is computed, and its numbers. */

import { h, freshId } from "../frame/elements.js";
import { light, matrixTable, ROWS } from "../figures/matrix.js";
import { isPart } from "./derivation.js";
import { decimals } from "../frame/numbers.js";
import { about, shapeText } from "./names.js";

const LETTER = 7.5;
const PADDING = 15;
const WIDEST_WORD = 96;

export class StepCard {
  /** `pick(cell)` is called with a chosen cell of the step `name`. */
  constructor(name, pick) {
    const id = freshId("step");
    this.name = name;
    this.pick = pick;
    this.top = 0;
    this.left = 0;
    this.heading = h("h3", { id, tabindex: "-1" }, about(name).title);
    this.formula = h("code", { class: "formula" });
    this.shape = h("span", { class: "shape number" });
    this.tools = h("div", { class: "buttons window" });
    this.place = h("div", { class: "matrix-place" });
    this.element = h(
      "section",
      { class: "card step", "aria-labelledby": id, "data-step": name },
      this.heading,
      h("p", { class: "step-sums" }, this.formula, " ", this.shape),
      h("p", { class: "muted does" }, about(name).does),
      this.tools,
      this.place,
    );
  }

  /** Draw the step of a trace as `{trace, head, looking, cell, parts, places, printed}` say. */
  show(view) {
    const { trace, head, looking, places, printed } = view;
    const step = trace.steps.get(this.name);
    this.view = view;
    this.matrix = trace.matrix(this.name, head, looking);
    this.most = mostOf(this.matrix.rows);
    this.formula.textContent = step.formula;
    this.shape.textContent = step.letters ?? shapeText(this.name, step.shape);
    const wide = this.matrix.columnNames.length > 6;
    this.element.classList.toggle("whole", wide);
    this.#follow();
    this.#tools();
    const part = this.part();
    const drawn = JSON.stringify([part, places, looking, head]);
    if (drawn !== this.drawn || trace !== this.of || view.theme !== this.theme) {
      const focused = this.place.contains(document.activeElement);
      Object.assign(this, { drawn, of: trace, theme: view.theme });
      this.table = matrixTable(this.matrix, part, {
        label: this.#label(), places: this.#places(), weights: this.name === "weights" || this.name === "visible",
        most: this.most, onpick: (row, column) => this.#picked(row, column),
        printed: (row, column) => printed.find((one) =>
          one.name === this.name && one.row === row && one.column === column),
      });
      this.place.replaceChildren(this.table);
      this.refocus = focused;
    }
    this.#light();
  }

  /** The part of the matrix that is seen. */
  part() {
    const { rows, columnNames, rowNames } = this.matrix;
    const names = Math.min(longest(rowNames) * 8 + 16, 132);
    const each = this.#cellWidth();
    const room = this.view.room(this.element.classList.contains("whole"));
    const width = Math.max(1, Math.min(columnNames.length, Math.floor((room - names) / each)));
    const height = Math.min(rows.length, ROWS);
    const left = Math.max(0, Math.min(this.left, columnNames.length - width));
    const top = Math.max(0, Math.min(this.top, rows.length - height));
    return { top, left, height, width };
  }

  /** Bring the chosen cell, or the column it is made of, into the window. */
  #follow() {
    const { cell, parts, head } = this.view;
    const key = JSON.stringify([cell, head]);
    if (key === this.followed && this.of === this.view.trace) return;
    this.followed = key;
    const mine = cell.name === this.name ? cell
      : parts.find((part) => part.name === this.name && (part.head === undefined || part.head === head));
    if (!mine) return;
    const part = this.part();
    const within = (at, start, size) => (at >= start && at < start + size ? start
      : at < start ? at : at - size + 1);
    if (mine.column !== null) this.left = within(mine.column, part.left, part.width);
    if (mine.row !== null) this.top = within(mine.row, part.top, part.height);
  }

  /** Pixels that a column takes: its widest number, its word, or what notes print. */
  #cellWidth() {
    const { printed } = this.view;
    const { words, columnNames } = this.matrix;
    const noted = printed.filter(({ name }) => name === this.name);
    const places = Math.max(this.#places(), ...noted.map((one) => one.places));
    const number = decimals(-(this.most || 1), places).length * LETTER + PADDING;
    const word = words === "both" ? Math.min(longest(columnNames) * 8 + 13, WIDEST_WORD) : 0;
    const texts = noted.map((one) => one.printed);
    return Math.max(number, word, texts.length ? (longest(texts) + 2) * LETTER : 0);
  }

  /** Ones and zeros have no decimals. */
  #places() {
    return this.name === "visible" ? 0 : this.view.places;
  }

  #label() {
    const { trace, head, looking } = this.view;
    return [
      about(this.name).title,
      ...(trace.headed(this.name) ? [`head ${head}`] : []),
      ...(this.name === "weighted_values" ? [`${trace.words[looking]} looking`] : []),
    ].join(", ");
  }

  #picked(row, column) {
    const { looking } = this.view;
    this.moved = true;
    this.pick({ name: this.name, looking: this.name === "weighted_values" ? looking : null, row, column });
  }

  #light() {
    const { cell, parts, head, looking } = this.view;
    const place = this.name === "weighted_values" ? looking : null;
    const chosen = light(this.table, {
      isChosen: (row, column) => cell.name === this.name && cell.row === row && cell.column === column,
      isLit: (row, column) => isPart(parts, { name: this.name, looking: place, row, column }, head),
    });
    if ((this.moved || this.refocus) && chosen) chosen.focus({ preventScroll: false });
    this.moved = false;
    this.refocus = false;
  }

  /** Which head or looking word is seen, and the buttons that move the window. */
  #tools() {
    const { trace, looking } = this.view;
    const { rows, columnNames } = this.matrix;
    const part = this.part();
    const kept = this.tools.contains(document.activeElement) ? document.activeElement.dataset.move : null;
    const tools = [];
    if (this.name === "weighted_values") tools.push(this.#lookingField(trace, looking));
    if (columnNames.length > part.width) tools.push(...this.#movers("left", "columns", part.width, columnNames.length, part.left));
    if (rows.length > part.height) tools.push(...this.#movers("top", "rows", part.height, rows.length, part.top));
    this.tools.replaceChildren(...tools);
    this.tools.hidden = !tools.length;
    if (kept) this.tools.querySelector(`[data-move="${kept}"]`)?.focus();
  }

  #lookingField(trace, looking) {
    const select = h("select", {
      "data-move": "looking",
      onchange: () => this.pick({ name: this.name, looking: Number(select.value), row: 0, column: 0 }),
    }, trace.words.map((word, i) => h("option", { value: i, selected: i === looking }, word)));
    return h("label", { class: "inline" }, "Looking word ", select);
  }

  #movers(side, what, size, all, at) {
    const move = (by) => {
      this[side] = Math.max(0, Math.min(at + by, all - size));
      this.show(this.view);
    };
    const title = about(this.name).title;
    const mover = (text, name, by, off) => h("button", {
      type: "button", class: "quiet", "data-move": `${side}${by < 0 ? "-" : "+"}`,
      "aria-label": `${title}: ${name} ${what}`, "aria-disabled": off ? "true" : null,
      onclick: () => off || move(by),
    }, text);
    return [
      mover("‹", "earlier", -size, at === 0),
      h("span", { class: "muted" }, `${what} ${at} to ${at + size - 1} of ${all}`),
      mover("›", "later", size, at + size >= all),
    ];
  }
}

const longest = (texts) => Math.max(...texts.map((text) => [...text].length));

function mostOf(rows) {
  let most = 0;
  for (const row of rows) for (const number of row) most = Math.max(most, Math.abs(number));
  return most;
}
