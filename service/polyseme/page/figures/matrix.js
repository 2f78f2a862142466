/** A matrix as a table of which a window is seen, whose cells are chosen by pointer and by keys. */

import { inkOn, signedColour, weightColour } from "../frame/colours.js";
import { h } from "../frame/elements.js";
import { decimals } from "../frame/numbers.js";

/** The most rows seen at once. */
export const ROWS = 24;

const MOVES = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-ROWS, 0], PageDown: [ROWS, 0],
};

/**
 * The table of the part `{top, left, height, width}` of a matrix (`Trace.matrix`). `onpick(row,
 * column, focus)` is called for a chosen cell; `printed(row, column)` gives what notes print there,
 * beside which a number has at least as many decimals.
 */
export function matrixTable(matrix, part, { label, places, weights, most, onpick, printed }) {
  const { rows, rowNames, columnNames, words } = matrix;
  const { top, left, height, width } = part;
  const head = h("tr", {}, h("td", {}), columnNames.slice(left, left + width).map((name) =>
    h("th", { scope: "col", title: name }, named(name, words === "both"))));
  const body = rows.slice(top, top + height).map((row, i) => h("tr", {},
    h("th", { scope: "row", title: rowNames[top + i] }, named(rowNames[top + i], words !== "none")),
    row.slice(left, left + width).map((number, j) =>
      cell(number, top + i, left + j, { places, weights, most, note: printed?.(top + i, left + j) }))));
  return h(
    "table",
    {
      class: "matrix", role: "grid", "aria-label": label,
      "aria-rowcount": rows.length + 1, "aria-colcount": columnNames.length + 1,
      onclick: ({ target }) => {
        const td = target.closest("td[data-row]");
        if (td) onpick(Number(td.dataset.row), Number(td.dataset.column));
      },
      onkeydown: (event) => moved(event, matrix, onpick),
    },
    h("thead", {}, head),
    h("tbody", {}, body),
  );
}

const named = (name, isWord) => (isWord ? h("bdi", { class: "word-name" }, name || "␣") : name);

function cell(number, row, column, { places, weights, most, note }) {
  const colour = weights ? weightColour(number, 1) : signedColour(number, most);
  const td = h("td", {
    tabindex: "-1", "data-row": row, "data-column": column,
    class: note ? (note.wrong ? "misprinted" : "rightly-printed") : null,
  }, h("span", { class: "number" }, decimals(number, Math.max(places, note?.places ?? 0))), note ? noted(note) : null);
  td.style.backgroundColor = colour;
  td.style.color = inkOn(colour);
  return td;
}

function noted({ printed, wrong }) {
  return wrong
    ? h("span", { class: "note" }, h("span", { class: "for-readers" }, " printed in the notes: "), h("s", {}, printed))
    : h("span", { class: "note" }, h("span", { class: "for-readers" }, " printed rightly in the notes: "),
      h("span", { "aria-hidden": "true" }, "✓ "), printed);
}

function moved(event, { rows }, onpick) {
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

/** Show which cell is chosen, which ones it is made of, and which one the keyboard comes to first. */
export function light(table, { isChosen, isLit }) {
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
