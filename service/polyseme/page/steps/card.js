/** The card of one step: title, formula, shape, and a table that shows a block of its matrix. */

import { parseMatrix } from "./editor.js";
import { printedNote } from "./printed.js";
import { about, cellText } from "./trace.js";
import { stored } from "../client.js";
import { signedColor, textColorOn, weightColor } from "../colors.js";
import { h, labeled, selectBox, setOptions, setText } from "../elements.js";
import { cellAfterKey, numberTable } from "../table.js";
import { counted, decimals } from "../text.js";

const { range } = globalThis.d3;

/** The size of a block of a matrix. More cells would make the browser slow. */
const MAX_ROWS = 24, MAX_COLUMNS = 16;
/** A step of more columns than this has a card of the whole width. */
const MAX_NARROW = 6;

/** What a step without weights does, by its operation. A formula with weights has a W. */
const ABOUT_OPERATION = {
  copy: ({ operands: [source] }) => `The numbers of “${about(source).title}”, unchanged: this step has no weights.`,
  product: ({ formula, operands: [source] }) => (formula.includes("W") ? null
    : `The numbers of “${about(source).title}” plus a bias, which is the same for every known word; an unknown word has zeros.`),
};

export class StepCard {
  /** `onpick(cell)` is called when the reader chooses a cell of the step `name` of a trace. */
  constructor(name, trace, onpick) {
    const { title, does } = about(name), { formula, operation } = trace.steps.get(name);
    Object.assign(this, { name, trace, onpick });
    this.heading = h("h3", { tabindex: "-1" }, title);
    // The weighted values have a matrix for each query token.
    this.querySelect = name === "weighted_values"
      ? selectBox(trace.words.map((word, i) => [String(i), word]), "0", (query) => onpick({ name, query: Number(query), row: 0, column: 0 }))
      : null;
    this.columns = new Block(`${title}: columns`, "columns", MAX_COLUMNS, () => this.#draw());
    this.rows = new Block(`${title}: rows`, "rows", MAX_ROWS, () => this.#draw());
    this.place = h("div", {
      class: "wide", onkeydown: (event) => this.#press(event),
      // Typed numbers may draw the table again between the two halves of a click, which is then no click.
      onpointerdown: ({ target }) => { this.down = this.#cellOf(target); },
      onpointerup: ({ target }) => {
        const cell = this.#cellOf(target);
        if (cell && this.down && cellText(cell) === cellText(this.down)) this.#pick(cell);
      },
      // A click by assistive technology has no pointer.
      onclick: ({ target, detail }) => detail || this.#pick(this.#cellOf(target)),
    });
    this.result = new OwnResult(`My result: ${title}`, () => this.#draw());
    this.element = h(
      "section",
      { class: "card step", "aria-label": title, "data-step": name },
      this.heading,
      h("p", { class: "buttons" }, h("code", {}, formula), " ", h("span", { class: "muted number" }, trace.shapeText(name))),
      h("p", { class: "muted" }, (ABOUT_OPERATION[operation] ?? (() => does))(trace.steps.get(name)) ?? does,
        formula.includes("X₀") ? " X₀ are the static vectors." : ""),
      h("div", { class: "controls" }, this.querySelect && labeled("Query token", this.querySelect),
        this.columns.select, this.rows.select),
      this.place,
      this.result.element,
    );
    this.result.element.hidden = isGiven(trace, name);
    this.element.classList.toggle("whole", trace.matrix(name, 0, 0).columnNames.length > MAX_NARROW);
  }

  /** Draw the step. `view`, made by `StepsView`, has the chosen cell, head and query token, and the decimals. */
  show(view) {
    const { head, query, cell, parts } = view, { name } = this, shown = [cellText(cell), head].join();
    this.matrix = this.trace.matrix(name, head, query);
    const { rows, columnNames } = this.matrix;
    if (this.querySelect) this.querySelect.value = String(query);
    /** Whether the chosen cell or the head is another one. */
    this.moved = shown !== this.shown;
    // Show the block with the chosen cell, or with the first of the cells that it is computed from.
    const target = cell.name === name ? cell : parts.find((part) => part.name === name);
    this.columns.show(columnNames.length, this.moved ? target?.column : null);
    this.rows.show(rows.length, this.moved ? target?.row : null);
    Object.assign(this, { view, shown });
    this.#draw();
  }

  #draw() {
    const focused = this.place.contains(document.activeElement);
    this.place.replaceChildren(this.#table());
    const chosen = this.place.querySelector(".chosen");
    // The tab stop is the chosen cell, else the first.
    (chosen ?? this.place.querySelector("[data-row]")).tabIndex = 0;
    if (focused || this.picked) chosen?.focus();
    this.picked = false;
  }

  #table() {
    const { view: { head, query, digits, printed, lit, cell: chosen }, trace } = this;
    const isHidden = this.view.isHidden && !this.result.element.hidden;
    if (isHidden) this.result.element.open = true;
    this.result.restore(`${this.view.owner} ${this.name} ${trace.headed(this.name) ? head : ""} ${this.querySelect ? query : ""}`);
    const own = this.result.check(this.matrix, digits, chosen.name === this.name ? chosen.row : this.view.query);
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
      isChosen: cellText(this.#cell(row, column)) === cellText(chosen), isLit: lit.has(cellText(this.#cell(row, column))),
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

  #cell(row, column) {
    return { name: this.name, query: this.querySelect ? this.view.query : null, row, column };
  }

  /** Return the cell that contains an element, or null. */
  #cellOf(element) {
    const { row, column } = element.closest("td[data-row]")?.dataset ?? {};
    return row === undefined ? null : this.#cell(Number(row), Number(column));
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

  /** Scroll the table to the chosen cell, or to the cells that it is computed from, after another cell was chosen. */
  scroll() {
    const target = this.moved && this.place.querySelector(".chosen, .lit");
    if (target) this.place.scrollLeft = target.offsetLeft - this.place.clientWidth / 2;
  }
}

/** Whether the numbers of a step are given, or computed from weights that a trace does not contain: nobody can compute them. */
export function isGiven(trace, name) {
  const { operation, operands: [source, weight] = [] } = trace.steps.get(name);
  return operation === "copy" ? isGiven(trace, source) : ["given", "function"].includes(operation) || (operation === "product" && !weight);
}

/** The list of the blocks of the rows or columns of a matrix, of which one is shown. */
class Block {
  constructor(name, what, size, onmove) {
    Object.assign(this, { what, size });
    this.select = selectBox([], "0", onmove);
    this.select.setAttribute("aria-label", name);
  }

  /** The index of the first row or column of the shown block. */
  get start() {
    return Number(this.select.value);
  }

  /** List the blocks of `count` rows or columns, and show the one with an index; stay if it is null or undefined. */
  show(count, index) {
    const { what, size } = this, start = Math.floor((index ?? Math.min(this.start, count - 1)) / size) * size;
    const options = range(0, count, size).map((first) =>
      [String(first), `${what} ${first} to ${Math.min(first + size, count) - 1} of ${count}`]);
    setOptions(this.select, options, String(start));
    this.select.hidden = count <= size;
  }
}

/**
 * Return a cell. With the `note` on a printed value, it has at least as many decimals as the printed value; `own` is a number
 * of the reader, `{text, isRight}`. A hidden cell shows no number but the reader's and the printed one.
 */
function numberCell(number, { row, column, color, digits, note, isHidden, own, isChosen, isLit }) {
  const text = isHidden ? own?.text ?? "?" : decimals(number, Math.max(digits, note?.digits ?? 0));
  const printed = note && !isHidden && (note.wrong ? "misprinted" : "correctly-printed");
  const td = h("td", {
    "data-row": row, "data-column": column, tabindex: "-1", "aria-selected": isChosen && "true",
    class: [printed, isChosen && "chosen", isLit && "lit"].filter(Boolean).join(" "),
    style: isHidden ? {} : { backgroundColor: color, color: textColorOn(color) },
  }, h("span", { class: "number" }, text));
  if (note) td.append(printedNote(note.printed, note.wrong, isHidden));
  if (own) td.append(ownMark(own, isHidden ? "" : ` yours: ${own.text}`));
  return td;
}

/** Return the mark of a number of the reader, after a `text` that says which it is where another number stands. */
export const ownMark = ({ isRight }, text = "") => h("span", { class: isRight ? "own right" : "own wrong" }, text,
  h("span", { "aria-hidden": "true" }, isRight ? " ✓" : " ✗"), h("span", { class: "visually-hidden" }, isRight ? " right" : " wrong"));

/** What the reader typed, by the name of the field; kept until the tab is closed. */
const results = stored("sessionStorage", "polyseme-results");
const typed = JSON.parse(results.get() || "{}");

/** The field for the reader's own result, which is compared cell by cell. */
export class OwnResult {
  /** `onchange()` is called when the text changes. */
  constructor(title, onchange) {
    this.area = h("textarea", {
      rows: 2, class: "number", spellcheck: "false", autocomplete: "off", "aria-label": title,
      oninput: () => {
        typed[this.name] = this.area.value;
        results.set(JSON.stringify(typed));
        this.place = null;
        onchange();
      },
    });
    this.status = h("p", { class: "status", role: "status" });
    this.element = h("details", { class: "own-result" }, h("summary", {}, "My result"), this.area, this.status);
  }

  /** Show what the reader typed for the result with a name, such as a step of an example. */
  restore(name) {
    if (name === this.name) return;
    Object.assign(this, { name, place: null });
    this.area.value = typed[name] ?? "";
    this.element.open ||= this.area.value !== "";
  }

  /**
   * Compare the typed numbers with those of a matrix, and return `{text, isRight}` for each, in its row and column. A number is
   * right if it differs by at most half a unit of its last decimal: as many as are typed, but at least one and at most `limit`.
   * Part of a matrix is compared with the part that it equals, else with row `chosen` or the first rows.
   */
  check({ rows, rowNames, columnNames }, limit, chosen = 0) {
    const refuse = (sentence) => {
      setText(this.status, sentence);
      return [];
    };
    if (!this.area.value.trim()) return refuse("");
    const { rows: lines, digits, error } = parseMatrix(this.area.value);
    if (error) return refuse(error);
    // Several rows may be typed in one line.
    const width = rows[0].length, isLine = lines.length === 1 && lines[0].length > width;
    const own = isLine ? chunks(lines[0], width) : lines, decimalsOf = isLine ? chunks(digits[0], width) : digits;
    const height = own.length, across = own[0].length;
    if (height > rows.length || across > width) {
      return refuse(`The typed numbers do not fit: this step has ${counted(rows.length, "row")} of ${counted(width, "number")}.`);
    }
    const compare = ([top, left]) => own.map((row, i) => row.map((number, j) => {
      const count = Math.min(Math.max(1, decimalsOf[i][j]), limit);
      return { text: decimals(number, Math.max(count, decimalsOf[i][j])), count, isRight: Math.abs(number - rows[top + i][left + j]) <= 0.51 * 10 ** -count };
    }));
    const usual = height === 1 ? Math.min(chosen, rows.length - 1) : 0;
    const tops = [usual, ...range(rows.length - height + 1)], lefts = height === rows.length ? range(width - across + 1) : [0];
    const places = tops.flatMap((top) => lefts.map((left) => [top, left]));
    this.place ??= places.find((place) => compare(place).flat().every(({ isRight }) => isRight)) ?? [usual, 0];
    const [top, left] = this.place, cells = compare(this.place), counts = cells.flat().map(({ count }) => count);
    const names = (list, first, size, what) => (size === list.length ? [] : [size === 1 ? `${what} ${list[first]}`
      : `${what}s ${list[first]} to ${list[first + size - 1]}`]);
    const where = [...names(rowNames, top, height, "row"), ...names(columnNames, left, across, "column")].join(", ");
    const least = Math.min(...counts), most = Math.max(...counts);
    setText(this.status, `${where && `Compared with ${where}. `}Right to ${least < most ? `${least} to ` : ""}${counted(most, "decimal")}: ${
      cells.flat().filter(({ isRight }) => isRight).length} of ${counted(counts.length, "number")}.`);
    const shift = (list, count) => [...Array.from({ length: count }), ...list];
    return shift(cells.map((row) => shift(row, left)), top);
  }
}

const chunks = (list, size) => range(0, list.length, size).map((first) => list.slice(first, first + size));
