/** A figure of the matrices of attention as colored grids, with arrows between them. */

import { textColorOn, signedColor, weightColor } from "../colors.js";
import { s } from "../elements.js";
import { decimals, fitTexts } from "../text.js";

/** The maximum number of rows of a grid, and of columns that are words. Other grids have at most 8 columns. */
const MAX_CELLS = 12;
const GAP = 30;
const TITLE = 32;
const MIN_ROW = 12, MAX_ROW = 24;
const LABEL = 52;

/**
 * Draw matrices `{name, symbol, shape, rows, rowNames, columnNames, words, left, top, weights, isChosen,
 * isLit}`, `width` pixels wide; the option `name` is the accessible name. A stage is one matrix, or queries, keys and
 * values. The stages are in a row if the figure is wide enough, else in a column.
 */
export function matrixFlow(matrices, { width, name }) {
  const byName = Object.fromEntries(matrices.map((matrix) => [matrix.name, withWindow(matrix)]));
  const stages = [["embeddings"], ["queries", "keys", "values"], ["scores"], ["scaled_scores"], ["weights"],
    ["context"], ["output"], ["contextual"]]
    .map((names) => names.filter((one) => one in byName).map((one) => byName[one])).filter((stage) => stage.length);
  const height = width >= 680 ? placeInRow(stages, width) : placeInColumn(stages, width);
  return s(
    "svg",
    { class: "flow", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name },
    arrows(byName, width >= 680),
    stages.flat().map(grid),
  );
}

/** Add the window to show. It begins where the window of the step's card begins, or earlier so that it is full. */
function withWindow(matrix) {
  const { rows, left, top } = matrix;
  const columns = Math.min(rows[0].length, MAX_CELLS, matrix.words === "both" ? MAX_CELLS : 8), height = Math.min(rows.length, MAX_CELLS);
  const from = Math.min(left, rows[0].length - columns), first = Math.min(top, rows.length - height);
  return { ...matrix, from, first, columns, height };
}

/** Place the stages from left to right; return the height. */
function placeInRow(stages, width) {
  const columns = stages.map((stage) => Math.max(...stage.map((matrix) => matrix.columns)));
  const label = Math.min(LABEL, Math.max(24, (width / stages.length) * 0.3));
  const allColumns = columns.reduce((a, b) => a + b, 0);
  const cell = Math.min(46, (width - 8 - (stages.length - 1) * GAP - stages.length * label) / allColumns);
  const row = Math.max(MIN_ROW, Math.min(MAX_ROW, cell));
  let x = 0, height = 0;
  for (const [i, stage] of stages.entries()) {
    let y = 0;
    for (const matrix of stage) {
      Object.assign(matrix, { x: x + label, y: y + TITLE, cell, row, label });
      y += TITLE + matrix.height * row + 14;
    }
    height = Math.max(height, y);
    x += label + columns[i] * cell + GAP;
  }
  return height + 12;
}

/** Place the stages from top to bottom; return the height. */
function placeInColumn(stages, width) {
  let y = 0;
  for (const matrix of stages.flat()) {
    const cell = Math.min(46, (width - LABEL - 6) / matrix.columns);
    const row = Math.max(MIN_ROW, Math.min(MAX_ROW, cell));
    Object.assign(matrix, { x: LABEL, y: y + TITLE, cell, row, label: LABEL });
    y += TITLE + matrix.height * row + 14;
  }
  return y;
}

function grid(matrix) {
  const { x, y, cell, row, label, symbol, shape, first, from } = matrix;
  const size = Math.min(11, row * 0.62);
  const numbered = cell >= 31 && row >= 15;
  const largest = Math.max(...matrix.rows.flat().map(Math.abs));
  return s(
    "g",
    {},
    s("text", { x: x - label + 2, y: y - 18, "font-weight": "600" }, `${symbol}  [${shape.join(", ")}]`),
    matrix.words === "both" && cell >= 22
      ? range(matrix.columns).map((j) => textElement(10, null, {
        class: "muted", x: x + (j + 0.5) * cell, y: y - 4, "text-anchor": "middle",
      }, fitTexts([matrix.columnNames[from + j]], 10, cell)))
      : null,
    range(matrix.height).flatMap((i) => [
      textElement(Math.min(11, row - 1), null, {
        class: "muted", x: x - 4, y: y + (i + 0.5) * row, "text-anchor": "end", "dominant-baseline": "central",
      }, fitTexts([matrix.rowNames[first + i]], Math.min(11, row - 1), label - 4)),
      ...range(matrix.columns).map((j) => square(matrix, i, j, { largest, numbered, size })),
    ]),
    marks(matrix),
    windowText(matrix),
  );
}

const range = (count) => Array.from({ length: count }, (_, i) => i);

function square(matrix, i, j, { largest, numbered, size }) {
  const { x, y, cell, row } = matrix;
  const number = matrix.rows[matrix.first + i][matrix.from + j];
  const color = matrix.weights ? weightColor(number, 1) : signedColor(number, largest);
  const at = { x: x + j * cell, y: y + i * row };
  return s(
    "g",
    {},
    s("rect", { ...at, width: cell, height: row, fill: color, class: "square" }),
    numbered ? textElement(size, textColorOn(color), {
      class: "number", x: at.x + cell / 2, y: at.y + row / 2, "text-anchor": "middle",
      "dominant-baseline": "central",
    }, decimals(number, 2)) : null,
  );
}

/** Create text with a font size and a color, as styles: style sheets override attributes. */
function textElement(size, color, attributes, text) {
  const element = s("text", attributes, text);
  element.style.fontSize = `${size}px`;
  if (color) element.style.fill = color;
  return element;
}

/** Draw a solid frame around the chosen cell and a dashed frame around the cells that it is computed from. */
function marks(matrix) {
  const { first, from } = matrix;
  const cells = range(matrix.height).flatMap((i) => range(matrix.columns).map((j) => [i, j]));
  const chosen = cells.filter(([i, j]) => matrix.isChosen(first + i, from + j));
  const lit = cells.filter(([i, j]) => matrix.isLit(first + i, from + j));
  return [lit.length ? frame(matrix, lit, "mark") : null, chosen.length ? frame(matrix, chosen, "mark chosen") : null];
}

function frame({ x, y, cell, row }, cells, kind) {
  const [top, left] = cells[0], [bottom, right] = cells.at(-1);
  return s("rect", {
    class: kind, x: x + left * cell, y: y + top * row,
    width: (right - left + 1) * cell, height: (bottom - top + 1) * row,
  });
}

/** Write the number of shown rows and columns if some are hidden. */
function windowText({ x, y, row, columns, height, rows }) {
  const hidden = [
    ...(rows[0].length > columns ? [`${columns} of ${rows[0].length} columns`] : []),
    ...(rows.length > height ? [`${height} of ${rows.length} rows`] : []),
  ];
  if (!hidden.length) return null;
  return textElement(9, null, { class: "muted", x, y: y + height * row + 11 }, hidden.join(", "));
}

const LINKS = [
  ["embeddings", "queries"], ["embeddings", "keys"], ["embeddings", "values"], ["queries", "scores"],
  ["keys", "scores"], ["scores", "scaled_scores"], ["scores", "weights"], ["scaled_scores", "weights"],
  ["weights", "context"], ["context", "output"], ["output", "contextual"], ["context", "contextual"],
];

function arrows(byName, inRow) {
  if (!inRow) return null;
  const drawn = LINKS.filter(([a, b]) => a in byName && b in byName)
    .filter(([a, b]) => !(a === "scores" && b === "weights" && byName.scaled_scores))
    .filter(([a, b]) => !(a === "context" && b === "contextual" && byName.output))
    .flatMap(([a, b]) => arrow(byName[a], byName[b]));
  if (byName.values && byName.context) drawn.push(...arrowBelow(byName.values, byName.context));
  return drawn;
}

const middle = ({ y, height, row }) => y + (height * row) / 2;
const end = ({ x, columns, cell }) => x + columns * cell;

function arrow(a, b) {
  const from = [end(a) + 3, middle(a)], to = [b.x - b.label - 2, middle(b)];
  // Arrows start and end horizontally, away from the titles.
  const bend = end(a) + 12;
  const points = [from, [bend, from[1]], [bend, to[1]], [to[0] - 4, to[1]]];
  return [line(points), arrowhead(to, "right")];
}

/** Draw the arrow from values to context, which passes below scores and weights. */
function arrowBelow(a, b) {
  const x = b.x + (b.columns * b.cell) / 2, top = b.y + b.height * b.row + 14;
  if (middle(a) < top) return [];
  return [line([[end(a) + 3, middle(a)], [x, middle(a)], [x, top + 4]]), arrowhead([x, top], "up")];
}

function line(points) {
  return s("polyline", { class: "flow-line", points: points.map((point) => point.join(",")).join(" ") });
}

function arrowhead([x, y], way) {
  const points = way === "right" ? [[x, y], [x - 6, y - 4], [x - 6, y + 4]] : [[x, y], [x - 4, y + 6], [x + 4, y + 6]];
  return s("polygon", { class: "flow-head", points: points.map((point) => point.join(",")).join(" ") });
}
