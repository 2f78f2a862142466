/** Tables of numbers, as elements and as text, and the keys that move between the cells of a grid. */

import { copyText, h, quietButton } from "./elements.js";
import { decimals } from "./text.js";

/**
 * Return a table. `columns` and `rows` are headings, words or elements; `cells` are rows of `td` elements. The other
 * properties are attributes of the table.
 */
export function numberTable({ caption = null, columns, rows, cells, ...attributes }) {
  const heading = (scope, name) => h("th", { scope }, typeof name === "string" ? h("bdi", {}, name) : name);
  return h(
    "table",
    attributes,
    caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td", {}), columns.map((name) => heading("col", name)))),
    h("tbody", {}, cells.map((row, i) => h("tr", {}, heading("row", rows[i]), row))),
  );
}

/** The maximum number of rows of a table in `TableDetails`. */
const MAX_ROWS = 60;

/** Details with matrices as tables, which are built when the reader opens them, and which the reader can copy. */
export class TableDetails {
  constructor(title, digits) {
    this.digits = digits;
    this.content = h("div", { class: "sides" });
    this.element = h("details", { class: "numbers", ontoggle: () => this.#fill() }, h("summary", {}, title), this.content);
  }

  /** Set the tables, `{caption, columns, rows, numbers}`. */
  show(tables) {
    if (this.tables?.every(({ numbers, caption }, i) => numbers === tables[i].numbers && caption === tables[i].caption)) return;
    this.tables = tables;
    this.#fill();
  }

  #fill() {
    if (this.element.open && this.tables) this.content.replaceChildren(...this.tables.map((table) => this.#table(table)));
  }

  #table({ caption, columns, rows, numbers }) {
    if (rows.length > MAX_ROWS) return h("p", {}, `The table is limited to ${MAX_ROWS} words. Save the JSON instead.`);
    const status = h("span", { role: "status", class: "status" });
    const text = () => separatedText([["", ...columns], ...Array.from(numbers, (row, i) => [rows[i], ...row])], "\t", "\n");
    const cell = (number) => h("td", { class: "number" }, decimals(number, this.digits));
    const cells = Array.from(numbers, (row) => Array.from(row, cell));
    return h("div", {}, h("div", { class: "buttons" },
      quietButton("Copy as tab-separated text", () => copyText(text(), status)), status),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, numberTable({ caption, columns, rows, cells })));
  }
}

/** The number of rows that Page Up and Page Down move. */
const PAGE = 10;

/**
 * Return the cell `{row, column}` that a key moves to from another cell, in a grid of `height` rows and `width`
 * columns; null for any other key.
 */
export function cellAfterKey({ key, ctrlKey, altKey, metaKey }, { row, column }, height, width) {
  const to = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    PageUp: [row - PAGE, column],
    PageDown: [row + PAGE, column],
    Home: [ctrlKey ? 0 : row, 0],
    End: [ctrlKey ? height - 1 : row, width - 1],
  }[key];
  if (!to || altKey || metaKey) return null;
  const clamped = (index, count) => Math.min(Math.max(index, 0), count - 1);
  return { row: clamped(to[0], height), column: clamped(to[1], width) };
}

/** Return a cell of CSV: text that a spreadsheet would compute begins with an apostrophe (OWASP, CSV Injection). */
export function csvCell(value) {
  return typeof value === "string" && /^[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value;
}

/** Return rows of cells as text with a separator, quoted as spreadsheets expect (RFC 4180). */
export function separatedText(rows, separator, newline) {
  const special = ['"', separator, "\r", "\n"];
  const quoted = (text) => (special.some((mark) => text.includes(mark)) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((cells) => cells.map((cell) => quoted(String(cell))).join(separator)).join(newline);
}
