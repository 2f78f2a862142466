/** The card of one step: title, formula, shape, and a table of which a window is shown. */

import { isPart } from "./derivation.js";
import { about, shapeText } from "./trace.js";
import { signedColor, textColorOn, weightColor } from "../colors.js";
import { h, uniqueId } from "../elements.js";
import { decimals } from "../text.js";

/** Widths in pixels: of a digit, of a cell's padding, of the widest word in a column's head. */
const DIGIT = 7.5, PADDING = 15, WIDEST_WORD = 96;

export class StepCard {
  /** `onpick(cell)` is called with a chosen cell of the step `name`. */
  constructor(name, onpick) {
    const id = uniqueId("step");
    this.name = name;
    this.onpick = onpick;
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

  /** Draw the step. `view` has the trace, the chosen head, cell and query token, and how numbers are shown. */
  show(view) {
    const { trace, head, query, places, printed } = view;
    const step = trace.steps.get(this.name);
    this.view = view;
    this.matrix = trace.matrix(this.name, head, query);
    this.most = mostOf(this.matrix.rows);
    this.formula.textContent = step.formula;
    this.shape.textContent = step.letters ?? shapeText(this.name, step.shape);
    const wide = this.matrix.columnNames.length > 6;
    this.element.classList.toggle("whole", wide);
    this.#moveWindow();
    this.#showTools();
    const part = this.part();
    const drawn = JSON.stringify([part, places, query, head]);
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
    this.#markCells();
  }

  /** The window of the matrix: `{top, left, height, width}`. */
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

  /** Move the window to the chosen cell, or to the cells that it is computed from. */
  #moveWindow() {
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

  /** The width of a column in pixels: that of its widest number, its word or a printed number. */
  #cellWidth() {
    const { printed } = this.view;
    const { words, columnNames } = this.matrix;
    const noted = printed.filter(({ name }) => name === this.name);
    const places = Math.max(this.#places(), ...noted.map((one) => one.places));
    const number = decimals(-(this.most || 1), places).length * DIGIT + PADDING;
    const word = words === "both" ? Math.min(longest(columnNames) * 8 + 13, WIDEST_WORD) : 0;
    const texts = noted.map((one) => one.printed);
    return Math.max(number, word, texts.length ? (longest(texts) + 2) * DIGIT : 0);
  }

  /** The decimals of a number; the mask has none. */
  #places() {
    return this.name === "visible" ? 0 : this.view.places;
  }

  #label() {
    const { trace, head, query } = this.view;
    return [
      about(this.name).title,
      ...(trace.headed(this.name) ? [`head ${head}`] : []),
      ...(this.name === "weighted_values" ? [`query ${trace.words[query]}`] : []),
    ].join(", ");
  }

  #picked(row, column) {
    const { query } = this.view;
    this.moved = true;
    this.onpick({ name: this.name, query: this.name === "weighted_values" ? query : null, row, column });
  }

  #markCells() {
    const { cell, parts, head, query } = this.view;
    const place = this.name === "weighted_values" ? query : null;
    const chosen = markCells(this.table, {
      isChosen: (row, column) => cell.name === this.name && cell.row === row && cell.column === column,
      isLit: (row, column) => isPart(parts, { name: this.name, query: place, row, column }, head),
    });
    if ((this.moved || this.refocus) && chosen) chosen.focus({ preventScroll: false });
    this.moved = false;
    this.refocus = false;
  }

  /** The select box of the query token, and the buttons that move the window. */
  #showTools() {
    const { trace, query } = this.view;
    const { rows, columnNames } = this.matrix;
    const part = this.part();
    const kept = this.tools.contains(document.activeElement) ? document.activeElement.dataset.move : null;
    const tools = [];
    if (this.name === "weighted_values") tools.push(this.#queryField(trace, query));
    if (columnNames.length > part.width) tools.push(...this.#movers("left", "columns", part.width, columnNames.length, part.left));
    if (rows.length > part.height) tools.push(...this.#movers("top", "rows", part.height, rows.length, part.top));
    this.tools.replaceChildren(...tools);
    this.tools.hidden = !tools.length;
    if (kept) this.tools.querySelector(`[data-move="${kept}"]`)?.focus();
  }

  #queryField(trace, query) {
    const select = h("select", {
      "data-move": "query",
      onchange: () => this.onpick({ name: this.name, query: Number(select.value), row: 0, column: 0 }),
    }, trace.words.map((word, i) => h("option", { value: i, selected: i === query }, word)));
    return h("label", { class: "inline" }, "Query token ", select);
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

/** The most rows of a window. */
const ROWS = 24;

const MOVES = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-ROWS, 0], PageDown: [ROWS, 0],
};

/**
 * The table of a window of a matrix (`Trace.matrix`). `onpick(row, column)` is called for a chosen cell.
 * `printed(row, column)` is the number that notes print; beside it, the right one has as many decimals.
 */
function matrixTable(matrix, part, { label, places, weights, most, onpick, printed }) {
  const { rows, rowNames, columnNames, words } = matrix;
  const { top, left, height, width } = part;
  const head = h("tr", {}, h("td", {}), columnNames.slice(left, left + width).map((name) =>
    h("th", { scope: "col", title: name }, nameElement(name, words === "both"))));
  const body = rows.slice(top, top + height).map((row, i) => h("tr", {},
    h("th", { scope: "row", title: rowNames[top + i] }, nameElement(rowNames[top + i], words !== "none")),
    row.slice(left, left + width).map((number, j) =>
      numberCell(number, top + i, left + j, { places, weights, most, note: printed?.(top + i, left + j) }))));
  return h(
    "table",
    {
      class: "matrix", role: "grid", "aria-label": label,
      "aria-rowcount": rows.length + 1, "aria-colcount": columnNames.length + 1,
      onclick: ({ target }) => {
        const td = target.closest("td[data-row]");
        if (td) onpick(Number(td.dataset.row), Number(td.dataset.column));
      },
      onkeydown: (event) => press(event, matrix, onpick),
    },
    h("thead", {}, head),
    h("tbody", {}, body),
  );
}

const nameElement = (name, isWord) => (isWord ? h("bdi", { class: "word-name" }, name || "␣") : name);

function numberCell(number, row, column, { places, weights, most, note }) {
  const color = weights ? weightColor(number, 1) : signedColor(number, most);
  const td = h("td", {
    tabindex: "-1", "data-row": row, "data-column": column,
    class: note ? (note.wrong ? "misprinted" : "rightly-printed") : null,
  }, h("span", { class: "number" }, decimals(number, Math.max(places, note?.places ?? 0))), note ? noteElement(note) : null);
  td.style.backgroundColor = color;
  td.style.color = textColorOn(color);
  return td;
}

function noteElement({ printed, wrong }) {
  return wrong
    ? h("span", { class: "note" }, h("span", { class: "for-readers" }, " printed in the notes: "), h("s", {}, printed))
    : h("span", { class: "note" }, h("span", { class: "for-readers" }, " printed rightly in the notes: "),
      h("span", { "aria-hidden": "true" }, "✓ "), printed);
}

function press(event, { rows }, onpick) {
  const td = event.target.closest("td[data-row]");
  if (!td || event.altKey || event.metaKey) return;
  const row = Number(td.dataset.row), column = Number(td.dataset.column);
  const last = rows[0].length - 1;
  let to = null;
  if (event.key in MOVES) to = [row + MOVES[event.key][0], column + MOVES[event.key][1]];
  else if (event.key === "Home") to = [event.ctrlKey ? 0 : row, 0];
  else if (event.key === "End") to = [event.ctrlKey ? rows.length - 1 : row, last];
  else if (event.key === "Enter" || event.key === " ") to = [row, column];
  if (!to) return;
  event.preventDefault();
  const within = (at, most) => Math.min(Math.max(at, 0), most);
  onpick(within(to[0], rows.length - 1), within(to[1], last));
}

/** Mark the chosen cell and the cells it is computed from; return the chosen one. It is the tab stop. */
function markCells(table, { isChosen, isLit }) {
  let first = null, chosen = null;
  for (const td of table.querySelectorAll("td[data-row]")) {
    const row = Number(td.dataset.row), column = Number(td.dataset.column);
    first ??= td;
    const picked = isChosen(row, column);
    if (picked) chosen = td;
    td.classList.toggle("chosen", picked);
    td.classList.toggle("lit", isLit(row, column));
    td.tabIndex = -1;
    if (picked) td.setAttribute("aria-selected", "true");
    else td.removeAttribute("aria-selected");
  }
  const entry = chosen ?? first;
  if (entry) entry.tabIndex = 0;
  return chosen;
}
