/** The matrices of attention as small colored grids with arrows between them. */

import { textColorOn, signedColor, weightColor } from "../colors.js";
import { s } from "../elements.js";
import { decimals, fitTexts } from "../text.js";

/** The most rows and columns of a grid. */
const MOST = 12;
const GAP = 30;
const TITLE = 32;
const ROW = { least: 12, most: 24 };
const LABEL = 52;

/**
 * The drawing of matrices `{name, symbol, shape, rows, rowNames, columnNames, words, left, top, weights,
 * isChosen, isLit}`, `width` pixels wide; stages stand side by side where there is room.
 */
export function matrixFlow(matrices, { width, name }) {
  const by = Object.fromEntries(matrices.map((matrix) => [matrix.name, cut(matrix)]));
  const stages = [["embeddings"], ["queries", "keys", "values"], ["scores"], ["scaled_scores"], ["weights"],
    ["context"], ["output"], ["contextual"]]
    .map((names) => names.filter((one) => one in by).map((one) => by[one])).filter((stage) => stage.length);
  const height = width >= 680 ? placeBeside(stages, width) : placeBelow(stages, width);
  return s(
    "svg",
    { class: "flow", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name },
    arrows(by, width >= 680),
    stages.flat().map(grid),
  );
}

/** At most 12 rows and columns, from the first that the step's card shows. */
function cut(matrix) {
  const { rows, left, top } = matrix;
  const columns = Math.min(rows[0].length, MOST, matrix.words === "both" ? MOST : 8), height = Math.min(rows.length, MOST);
  const from = Math.min(left, rows[0].length - columns), first = Math.min(top, rows.length - height);
  return { ...matrix, from, first, columns, height };
}

/** Place stages from left to right; return the height. */
function placeBeside(stages, width) {
  const columns = stages.map((stage) => Math.max(...stage.map((matrix) => matrix.columns)));
  const label = Math.min(LABEL, Math.max(24, (width / stages.length) * 0.3));
  const all = columns.reduce((a, b) => a + b, 0);
  const cell = Math.min(46, (width - 8 - (stages.length - 1) * GAP - stages.length * label) / all);
  const row = Math.max(ROW.least, Math.min(ROW.most, cell));
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

/** Place stages from top to bottom, in a narrow window; return the height. */
function placeBelow(stages, width) {
  let y = 0;
  for (const matrix of stages.flat()) {
    const cell = Math.min(46, (width - LABEL - 6) / matrix.columns);
    const row = Math.max(ROW.least, Math.min(ROW.most, cell));
    Object.assign(matrix, { x: LABEL, y: y + TITLE, cell, row, label: LABEL });
    y += TITLE + matrix.height * row + 14;
  }
  return y;
}

function grid(matrix) {
  const { x, y, cell, row, label, symbol, shape, first, from } = matrix;
  const size = Math.min(11, row * 0.62);
  const numbered = cell >= 31 && row >= 15;
  const most = Math.max(...matrix.rows.flat().map(Math.abs));
  return s(
    "g",
    {},
    s("text", { x: x - label + 2, y: y - 18, "font-weight": "600" }, `${symbol}  [${shape.join(", ")}]`),
    matrix.words === "both" && cell >= 22
      ? upTo(matrix.columns).map((j) => textElement(10, null, {
        class: "muted", x: x + (j + 0.5) * cell, y: y - 4, "text-anchor": "middle",
      }, fitTexts([matrix.columnNames[from + j]], 10, cell)))
      : null,
    upTo(matrix.height).flatMap((i) => [
      textElement(Math.min(11, row - 1), null, {
        class: "muted", x: x - 4, y: y + (i + 0.5) * row, "text-anchor": "end", "dominant-baseline": "central",
      }, fitTexts([matrix.rowNames[first + i]], Math.min(11, row - 1), label - 4)),
      ...upTo(matrix.columns).map((j) => square(matrix, i, j, { most, numbered, size })),
    ]),
    marks(matrix),
    more(matrix),
  );
}

const upTo = (count) => Array.from({ length: count }, (_, i) => i);

function square(matrix, i, j, { most, numbered, size }) {
  const { x, y, cell, row } = matrix;
  const number = matrix.rows[matrix.first + i][matrix.from + j];
  const color = matrix.weights ? weightColor(number, 1) : signedColor(number, most);
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

/** Text with a font size and a color, as styles: style sheets override attributes. */
function textElement(size, color, attributes, text) {
  const element = s("text", attributes, text);
  element.style.fontSize = `${size}px`;
  if (color) element.style.fill = color;
  return element;
}

/** A solid frame around the chosen cell, a dashed one around the cells that it is computed from. */
function marks(matrix) {
  const { first, from } = matrix;
  const cells = upTo(matrix.height).flatMap((i) => upTo(matrix.columns).map((j) => [i, j]));
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

/** How many rows and columns are shown, when it is not all. */
function more({ x, y, row, columns, height, rows }) {
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

function arrows(by, wide) {
  if (!wide) return null;
  const drawn = LINKS.filter(([a, b]) => a in by && b in by)
    .filter(([a, b]) => !(a === "scores" && b === "weights" && by.scaled_scores))
    .filter(([a, b]) => !(a === "context" && b === "contextual" && by.output))
    .flatMap(([a, b]) => arrow(by[a], by[b]));
  if (by.values && by.context) drawn.push(...around(by.values, by.context));
  return drawn;
}

const middle = ({ y, height, row }) => y + (height * row) / 2;
const end = ({ x, columns, cell }) => x + columns * cell;

function arrow(a, b) {
  const from = [end(a) + 3, middle(a)], to = [b.x - b.label - 2, middle(b)];
  // Arrows leave and enter horizontally, clear of the titles.
  const bend = end(a) + 12;
  const points = [from, [bend, from[1]], [bend, to[1]], [to[0] - 4, to[1]]];
  return [line(points), head(to, "right")];
}

/** The arrow from values to context runs below scores and weights. */
function around(a, b) {
  const x = b.x + (b.columns * b.cell) / 2, top = b.y + b.height * b.row + 14;
  if (middle(a) < top) return [];
  return [line([[end(a) + 3, middle(a)], [x, middle(a)], [x, top + 4]]), head([x, top], "up")];
}

function line(points) {
  return s("polyline", { class: "flow-line", points: points.map((point) => point.join(",")).join(" ") });
}

function head([x, y], way) {
  const points = way === "right" ? [[x, y], [x - 6, y - 4], [x - 6, y + 4]] : [[x, y], [x - 4, y + 6], [x + 4, y + 6]];
  return s("polygon", { class: "flow-head", points: points.map((point) => point.join(",")).join(" ") });
}
