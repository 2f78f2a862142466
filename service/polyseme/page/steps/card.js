/** The card of one step: title, formula, shape, and a table that shows a block of its matrix. */

import { isPart } from "./derivation.js";
import { parseMatrix } from "./editor.js";
import { printedNote } from "./printed.js";
import { about, cellText } from "./trace.js";
import { signedColor, textColorOn, theme, weightColor } from "../colors.js";
import { h, labeled, quietButton, selectBox, setOptions, setText, uniqueId } from "../elements.js";
import { cellAfterKey, numberTable } from "../table.js";
import { decimals } from "../text.js";

const { range } = globalThis.d3;

/** The size of a block of a matrix. More cells would make the browser slow. */
const MAX_ROWS = 24, MAX_COLUMNS = 16;
/** A step of more columns than this has a card of the whole width. */
const MAX_NARROW = 6;

export class StepCard {
  /** `onpick(cell)` is called when the reader chooses a cell of the step `name`. */
  constructor(name, onpick) {
    const id = uniqueId("step"), { title, does } = about(name);
    this.name = name;
    this.onpick = onpick;
    this.heading = h("h3", { id, tabindex: "-1" }, title);
    this.formula = h("code", {});
    this.shape = h("span", { class: "muted number" });
    // The weighted values have a matrix for each query token.
    this.querySelect = name === "weighted_values"
      ? selectBox([], "", (query) => onpick({ name, query: Number(query), row: 0, column: 0 })) : null;
    this.columns = new Pager(`${title}: `, "columns", MAX_COLUMNS, () => this.#draw());
    this.rows = new Pager(`${title}: `, "rows", MAX_ROWS, () => this.#draw());
    this.place = h("div", {
      class: "wide", onclick: ({ target }) => this.#pick(this.#cellOf(target)), onkeydown: (event) => this.#press(event),
    });
    this.result = new OwnResult(`My result: ${title}`, () => this.#draw());
    this.element = h(
      "section",
      { class: "card step", "aria-labelledby": id, "data-step": name },
      this.heading,
      h("p", { class: "buttons" }, this.formula, " ", this.shape),
      h("p", { class: "muted" }, does),
      h("div", { class: "controls" }, this.querySelect && labeled("Query token", this.querySelect),
        this.columns.element, this.rows.element),
      this.place,
      this.result.element,
    );
  }

  /** Draw the step. `view`, made by `StepsView`, has the trace, the chosen cell, head and query token, and the decimals. */
  show(view) {
    const { trace, head, query, cell, parts } = view, { name } = this;
    this.matrix = trace.matrix(name, head, query);
    const { rows, columnNames } = this.matrix;
    this.formula.textContent = trace.formula(name);
    this.shape.textContent = trace.shapeText(name);
    this.element.classList.toggle("whole", columnNames.length > MAX_NARROW);
    if (this.querySelect) setOptions(this.querySelect, trace.words.map((word, i) => [String(i), word]), String(query));
    this.columns.count = columnNames.length;
    this.rows.count = rows.length;
    const isNew = trace !== this.view?.trace, shown = [cellText(cell), head].join();
    this.result.element.hidden = trace.steps.get(name).operation === "given";
    if (isNew) {
      this.columns.start = this.rows.start = 0;
      this.result.clear();
    }
    /** Whether the trace, the chosen cell or the head is another one. */
    this.moved = isNew || shown !== this.shown;
    if (this.moved) {
      // Show the block with the chosen cell, or with the first of the cells that it is computed from.
      const target = cell.name === name ? cell : parts.find((part) => isPart([part], { ...part, name }, head));
      this.columns.include(target?.column);
      this.rows.include(target?.row);
    }
    Object.assign(this, { view, shown });
    this.#draw();
  }

  #draw() {
    const { trace, head, query, digits, printed, isHidden } = this.view;
    const drawn = [
      this.columns.start, this.rows.start, head, query, digits, printed.length, isHidden, this.result.text, theme(),
    ].join();
    const focused = this.place.contains(document.activeElement);
    if (drawn !== this.drawn || trace !== this.drawnTrace) {
      Object.assign(this, { drawn, drawnTrace: trace });
      this.place.replaceChildren(this.#table());
    }
    this.columns.show();
    this.rows.show();
    const chosen = this.#markCells();
    if (focused || this.picked) chosen?.focus();
    this.picked = false;
  }

  #table() {
    const { trace, head, query, digits } = this.view;
    const isHidden = this.view.isHidden && !this.result.element.hidden;
    if (isHidden) this.result.element.open = true;
    const printed = isHidden ? [] : this.view.printed;
    const own = this.result.check(this.matrix.rows, digits);
    const { rows, rowNames, columnNames } = this.matrix;
    const { start: left } = this.columns, { start: top } = this.rows;
    const isShare = this.name === "weights" || this.name === "visible";
    const largest = rows.flat().reduce((size, number) => Math.max(size, Math.abs(number)), 0);
    const notes = printed.filter((note) => note.name === this.name && note.query === (this.querySelect ? query : null));
    const heading = (name) => h("bdi", { title: name }, name || "␣");
    const cell = (row, column) => numberCell(rows[row][column], {
      row, column,
      color: isShare ? weightColor(rows[row][column]) : signedColor(rows[row][column], largest),
      digits: this.name === "visible" ? 0 : digits,
      note: notes.find((note) => note.row === row && note.column === column),
      isHidden, own: own[row]?.[column],
    });
    const shownColumns = range(left, Math.min(left + MAX_COLUMNS, columnNames.length));
    const shownRows = range(top, Math.min(top + MAX_ROWS, rows.length));
    return numberTable({
      class: "matrix", role: "grid",
      "aria-label": [
        about(this.name).title,
        ...(trace.headed(this.name) ? [`head ${head}`] : []),
        ...(this.querySelect ? [`query ${trace.words[query]}`] : []),
      ].join(", "),
      "aria-rowcount": rows.length + 1, "aria-colcount": columnNames.length + 1,
      columns: shownColumns.map((column) => heading(columnNames[column])),
      rows: shownRows.map((row) => heading(rowNames[row])),
      cells: shownRows.map((row) => shownColumns.map((column) => cell(row, column))),
    });
  }

  /** Return the cell that contains an element, or null. */
  #cellOf(element) {
    const { row, column } = element.closest("td[data-row]")?.dataset ?? {};
    if (row === undefined) return null;
    const query = this.querySelect ? this.view.query : null;
    return { name: this.name, query, row: Number(row), column: Number(column) };
  }

  #pick(cell) {
    if (!cell) return;
    this.picked = true;
    this.onpick(cell);
  }

  #press(event) {
    const cell = this.#cellOf(event.target), { rows } = this.matrix;
    if (!cell) return;
    const chosen = event.key === "Enter" || event.key === " ";
    const to = chosen ? cell : cellAfterKey(event, cell, rows.length, rows[0].length);
    if (!to) return;
    event.preventDefault();
    this.#pick({ ...cell, ...to });
  }

  /** Mark the chosen cell and its parts. The tab stop is the chosen cell, else the first. Return the chosen cell. */
  #markCells() {
    const { cell, parts, head } = this.view;
    const cells = [...this.place.querySelectorAll("td[data-row]")];
    for (const td of cells) {
      const at = this.#cellOf(td), isChosen = cellText(cell) === cellText(at);
      td.classList.toggle("chosen", isChosen);
      td.classList.toggle("lit", isPart(parts, at, head));
      td.tabIndex = -1;
      if (isChosen) td.setAttribute("aria-selected", "true");
      else td.removeAttribute("aria-selected");
    }
    const chosen = cells.find((td) => td.matches(".chosen"));
    (chosen ?? cells[0]).tabIndex = 0;
    return chosen;
  }

  /** Scroll the table to the chosen cell, or to the cells that it is computed from, after another cell was chosen. */
  scroll() {
    const target = this.moved && this.place.querySelector(".chosen, .lit");
    if (target) this.place.scrollLeft = target.offsetLeft - this.place.clientWidth / 2;
  }
}

/** The buttons that show the next or previous block of the rows or columns of a matrix. */
class Pager {
  constructor(title, what, size, onmove) {
    Object.assign(this, { what, size, start: 0, count: 0 });
    const button = (text, name, by) => quietButton(text, ({ target }) => {
      if (target.getAttribute("aria-disabled") === "true") return;
      this.start += by;
      onmove();
    }, { class: "quiet small", "aria-label": `${title}${name} ${what}` });
    this.earlier = button("‹", "earlier", -size);
    this.later = button("›", "later", size);
    this.text = h("span", { class: "muted" });
    this.element = h("div", { class: "buttons" }, this.earlier, this.text, this.later);
  }

  /** Move to the block with an index; stay if it is null or undefined. */
  include(index) {
    this.start = Math.floor((index ?? this.start) / this.size) * this.size;
  }

  show() {
    const { what, size, start, count } = this;
    this.element.hidden = count <= size;
    this.text.textContent = `${what} ${start} to ${Math.min(start + size, count) - 1} of ${count}`;
    // A disabled button would lose the focus.
    this.earlier.setAttribute("aria-disabled", String(start === 0));
    this.later.setAttribute("aria-disabled", String(start + size >= count));
  }
}

/**
 * Return a cell. With the `note` on a printed value, it has at least as many decimals as the printed value; `own` is a number
 * of the reader, `{text, isRight}`. A hidden cell shows no number but the reader's.
 */
function numberCell(number, { row, column, color, digits, note, isHidden, own }) {
  const text = isHidden ? own?.text ?? "?" : decimals(number, Math.max(digits, note?.digits ?? 0));
  const td = h("td", {
    "data-row": row, "data-column": column, class: note && (note.wrong ? "misprinted" : "correctly-printed"),
  }, h("span", { class: "number" }, text));
  if (!isHidden) {
    td.style.backgroundColor = color;
    td.style.color = textColorOn(color);
  }
  if (note) td.append(printedNote(note.printed, note.wrong));
  if (own) td.append(ownMark(own));
  return td;
}

/** Return the mark of a number of the reader. */
export const ownMark = ({ isRight }) => h("span", { class: isRight ? "own right" : "own wrong" },
  h("span", { "aria-hidden": "true" }, isRight ? " ✓" : " ✗"), h("span", { class: "visually-hidden" }, isRight ? " right" : " wrong"));

/** The field for the reader's own result, which is compared cell by cell. */
export class OwnResult {
  /** `onchange()` is called when the text changes. */
  constructor(title, onchange) {
    this.area = h("textarea", {
      rows: 2, class: "number", spellcheck: "false", autocomplete: "off", "aria-label": title, oninput: () => onchange(),
    });
    this.status = h("p", { class: "status", role: "status" });
    this.element = h("details", { class: "own-result" }, h("summary", {}, "My result"), this.area, this.status);
  }

  get text() {
    return this.area.value;
  }

  clear() {
    this.area.value = "";
    setText(this.status, "");
  }

  /**
   * Compare the typed numbers with rows of right ones; return `{text, isRight}` for each. A number is right if it differs by
   * at most half a unit of the last of `digits` decimals.
   */
  check(rows, digits) {
    if (!this.text.trim()) {
      setText(this.status, "");
      return [];
    }
    const { rows: own = [], error } = parseMatrix(this.text);
    const numbers = own.flat();
    // One line is the numbers of the first rows, read from left to right.
    const width = rows[0].length, isLine = own.length === 1 && numbers.length > width;
    const cells = (isLine ? rows.map((_, i) => numbers.slice(i * width, (i + 1) * width)) : own)
      .map((row, i) => row.map((number, j) => ({
        text: decimals(number, digits), isRight: Math.abs(number - rows[i]?.[j]) <= 0.51 * 10 ** -digits,
      })));
    const right = cells.flat().filter(({ isRight }) => isRight).length, all = rows.length * width;
    setText(this.status, error ?? `${right} of ${all} numbers are right to ${digits} decimals.`);
    return cells;
  }
}
