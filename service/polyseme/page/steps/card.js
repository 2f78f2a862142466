/** The card of one step: title, formula, shape, and a table that shows a window of its matrix. */

import { isPart } from "./derivation.js";
import { about, shapeText } from "./trace.js";
import { signedColor, textColorOn, weightColor } from "../colors.js";
import { h, uniqueId } from "../elements.js";
import { decimals } from "../text.js";

/** Widths in pixels: a digit, the padding of a cell, and the widest word in a column header. */
const DIGIT = 7.5, PADDING = 15, MAX_WORD = 96;

export class StepCard {
  /** `onpick(cell)` is called when the reader chooses a cell of the step `name`. */
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
    this.tablePlace = h("div", { class: "matrix-place" });
    this.element = h(
      "section",
      { class: "card step", "aria-labelledby": id, "data-step": name },
      this.heading,
      h("p", { class: "step-sums" }, this.formula, " ", this.shape),
      h("p", { class: "muted does" }, about(name).does),
      this.tools,
      this.tablePlace,
    );
  }

  /** Draw the step. `view`, made by `StepsView`, has the trace, the chosen head, cell and query token, and the decimals. */
  show(view) {
    const { trace, head, query, digits, printed } = view;
    const step = trace.steps.get(this.name);
    this.view = view;
    this.matrix = trace.matrix(this.name, head, query);
    this.largest = largestOf(this.matrix.rows);
    this.formula.textContent = step.formula;
    this.shape.textContent = step.letters ?? shapeText(this.name, step.shape);
    const wide = this.matrix.columnNames.length > 6;
    this.element.classList.toggle("whole", wide);
    this.#scrollToCells();
    this.#showTools();
    const shown = this.window();
    const drawn = JSON.stringify([shown, digits, query, head]);
    if (drawn !== this.drawn || trace !== this.of || view.theme !== this.theme) {
      const focused = this.tablePlace.contains(document.activeElement);
      Object.assign(this, { drawn, of: trace, theme: view.theme });
      this.table = matrixTable(this.matrix, shown, {
        label: this.#label(), digits: this.#digits(), weights: this.name === "weights" || this.name === "visible",
        largest: this.largest, onpick: (row, column) => this.#pick(row, column),
        printed: (row, column) => printed.find((one) =>
          one.name === this.name && one.row === row && one.column === column),
      });
      this.tablePlace.replaceChildren(this.table);
      this.refocus = focused;
    }
    this.#markCells();
  }

  /** Return the window of the matrix that is shown: `{top, left, height, width}`. */
  window() {
    const { rows, columnNames, rowNames } = this.matrix;
    const namesWidth = Math.min(maxLength(rowNames) * 8 + 16, 132);
    const cellWidth = this.#cellWidth();
    const space = this.view.tableWidth(this.element.classList.contains("whole"));
    const width = Math.max(1, Math.min(columnNames.length, Math.floor((space - namesWidth) / cellWidth)));
    const height = Math.min(rows.length, MAX_ROWS);
    const left = Math.max(0, Math.min(this.left, columnNames.length - width));
    const top = Math.max(0, Math.min(this.top, rows.length - height));
    return { top, left, height, width };
  }

  /** Move the window to the chosen cell, or to the cells that the chosen cell is computed from. */
  #scrollToCells() {
    const { cell, parts, head } = this.view;
    const key = JSON.stringify([cell, head]);
    if (key === this.followed && this.of === this.view.trace) return;
    this.followed = key;
    const target = cell.name === this.name ? cell
      : parts.find((part) => part.name === this.name && (part.head === undefined || part.head === head));
    if (!target) return;
    const shown = this.window();
    const scrolled = (at, start, size) => (at >= start && at < start + size ? start
      : at < start ? at : at - size + 1);
    if (target.column !== null) this.left = scrolled(target.column, shown.left, shown.width);
    if (target.row !== null) this.top = scrolled(target.row, shown.top, shown.height);
  }

  /** Return the width of every column in pixels: that of the widest number, word or printed number. */
  #cellWidth() {
    const { printed } = this.view;
    const { words, columnNames } = this.matrix;
    const notes = printed.filter(({ name }) => name === this.name);
    const digits = Math.max(this.#digits(), ...notes.map((one) => one.digits));
    const number = decimals(-(this.largest || 1), digits).length * DIGIT + PADDING;
    const word = words === "both" ? Math.min(maxLength(columnNames) * 8 + 13, MAX_WORD) : 0;
    const texts = notes.map((one) => one.printed);
    return Math.max(number, word, texts.length ? (maxLength(texts) + 2) * DIGIT : 0);
  }

  /** Return the number of decimals; it is 0 for the mask. */
  #digits() {
    return this.name === "visible" ? 0 : this.view.digits;
  }

  #label() {
    const { trace, head, query } = this.view;
    return [
      about(this.name).title,
      ...(trace.headed(this.name) ? [`head ${head}`] : []),
      ...(this.name === "weighted_values" ? [`query ${trace.words[query]}`] : []),
    ].join(", ");
  }

  #pick(row, column) {
    const { query } = this.view;
    this.moved = true;
    this.onpick({ name: this.name, query: this.name === "weighted_values" ? query : null, row, column });
  }

  #markCells() {
    const { cell, parts, head, query } = this.view;
    const index = this.name === "weighted_values" ? query : null;
    const chosen = markCells(this.table, {
      isChosen: (row, column) => cell.name === this.name && cell.row === row && cell.column === column,
      isLit: (row, column) => isPart(parts, { name: this.name, query: index, row, column }, head),
    });
    if ((this.moved || this.refocus) && chosen) chosen.focus({ preventScroll: false });
    this.moved = false;
    this.refocus = false;
  }

  /** Show the select box of the query token and the buttons that move the window. */
  #showTools() {
    const { trace, query } = this.view;
    const { rows, columnNames } = this.matrix;
    const shown = this.window();
    const focused = this.tools.contains(document.activeElement) ? document.activeElement.dataset.move : null;
    const tools = [];
    if (this.name === "weighted_values") tools.push(this.#queryField(trace, query));
    if (columnNames.length > shown.width) tools.push(...this.#movers("left", "columns", shown.width, columnNames.length, shown.left));
    if (rows.length > shown.height) tools.push(...this.#movers("top", "rows", shown.height, rows.length, shown.top));
    this.tools.replaceChildren(...tools);
    this.tools.hidden = !tools.length;
    if (focused) this.tools.querySelector(`[data-move="${focused}"]`)?.focus();
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

const maxLength = (texts) => Math.max(...texts.map((text) => [...text].length));

function largestOf(rows) {
  let largest = 0;
  for (const row of rows) for (const number of row) largest = Math.max(largest, Math.abs(number));
  return largest;
}

/** The maximum number of rows of a window. */
const MAX_ROWS = 24;

const MOVES = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-MAX_ROWS, 0], PageDown: [MAX_ROWS, 0],
};

/**
 * Return a table of a window of a matrix (`Trace.matrix`). `onpick(row, column)` is called for a chosen cell.
 * `printed(row, column)` is the value printed in the teaching notes, if any; the cell shows at least as many decimals.
 */
function matrixTable(matrix, { top, left, height, width }, { label, digits, weights, largest, onpick, printed }) {
  const { rows, rowNames, columnNames, words } = matrix;
  const head = h("tr", {}, h("td", {}), columnNames.slice(left, left + width).map((name) =>
    h("th", { scope: "col", title: name }, nameElement(name, words === "both"))));
  const body = rows.slice(top, top + height).map((row, i) => h("tr", {},
    h("th", { scope: "row", title: rowNames[top + i] }, nameElement(rowNames[top + i], words !== "none")),
    row.slice(left, left + width).map((number, j) =>
      numberCell(number, top + i, left + j, { digits, weights, largest, note: printed?.(top + i, left + j) }))));
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

function numberCell(number, row, column, { digits, weights, largest, note }) {
  const color = weights ? weightColor(number, 1) : signedColor(number, largest);
  const td = h("td", {
    tabindex: "-1", "data-row": row, "data-column": column,
    class: note ? (note.wrong ? "misprinted" : "correctly-printed") : null,
  }, h("span", { class: "number" }, decimals(number, Math.max(digits, note?.digits ?? 0))), note ? noteElement(note) : null);
  td.style.backgroundColor = color;
  td.style.color = textColorOn(color);
  return td;
}

function noteElement({ printed, wrong }) {
  return wrong
    ? h("span", { class: "note" }, h("span", { class: "visually-hidden" }, " printed in the notes: "), h("s", {}, printed))
    : h("span", { class: "note" }, h("span", { class: "visually-hidden" }, " printed correctly in the notes: "),
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
  const clamp = (at, limit) => Math.min(Math.max(at, 0), limit);
  onpick(clamp(to[0], rows.length - 1), clamp(to[1], last));
}

/** Mark the chosen cell and its parts. The tab stop is the chosen cell, else the first. Return the chosen cell or null. */
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
