/** A heatmap of attention weights or contributions, and its cursor. */

import { signedColor, textColorOn, weightColor } from "../colors.js";
import { h, s, svgDrawing } from "../elements.js";
import { cellAfterKey } from "../table.js";
import { decimals, fitTexts, maxTextWidth, short } from "../text.js";

const { max } = globalThis.d3;

/** The maximum size of a cell in pixels: MAX_SIDE divided by the number of columns, but from CELL to MAX_CELL. */
const CELL = 34, MAX_CELL = 64, MAX_SIDE = 660;
/** The minimum size of a cell that shows its weight. */
const MIN_NUMBERED_CELL = 30;
/** The font size of the labels, and the minimum distance between two of them. */
const FONT = 11, LABEL = 12;
const GAP = 6;

/** Return the largest magnitude of weights. */
export const largest = (rows) => max(rows, (row) => max(row, Math.abs)) ?? 0;

/** Return the function from a weight to its color. By default, it is signed if a weight is negative. */
function colorsOf(rows, limit = largest(rows), signed = rows.some((row) => row.some((weight) => weight < 0))) {
  return { signed, limit, colorOf: (weight) => (signed ? signedColor : weightColor)(weight, limit) };
}

/**
 * Draw a heatmap of weights, at most `width` pixels wide; `names` are the names of the columns, of which the first are those of
 * the rows. The colors of signed weights run to `limit`, if there is one. Return the `drawing`, its `layout` and
 * `highlight(row, column)`, which highlights the labels of a cell.
 */
export function heatmapDrawing(names, rows, width, limit = undefined) {
  const layout = layoutOf(names, rows.length, width), colors = limit ? colorsOf(rows, limit, true) : colorsOf(rows);
  const { left, top, cell, count, every } = layout;
  const labels = layout.labels.map((text, i) => (i % every === 0 ? text : ""));
  const middle = (i) => (i + 0.5) * cell;
  const rowLabels = labels.slice(0, rows.length).map((text, i) => labelElement(text,
    { x: left - GAP, y: top + middle(i), "text-anchor": "end" }));
  const columnLabels = labels.map((text, i) => labelElement(text,
    { x: 0, y: 0, "text-anchor": "start", transform: `translate(${left + middle(i)} ${top - GAP}) rotate(-90)` }));
  const drawing = svgDrawing(
    "heatmap",
    layout.width,
    layout.height,
    { "aria-hidden": "true" },
    // An element for each of thousands of cells would be slow.
    s("image", {
      href: pixels(rows, colors.colorOf).toDataURL(), x: left, y: top, width: count * cell, height: rows.length * cell,
      preserveAspectRatio: "none", "image-rendering": "pixelated",
    }),
    cell >= MIN_NUMBERED_CELL ? numberElements(rows, layout, colors.colorOf) : null,
    [...rowLabels, ...columnLabels].filter(({ textContent }) => textContent),
    scaleElements(layout, colors),
  );
  const highlight = (row, column) => {
    rowLabels.forEach((label, i) => label.classList.toggle("lit", i === row));
    columnLabels.forEach((label, i) => label.classList.toggle("lit", i === column));
  };
  return { drawing, layout, highlight };
}

function numberElements(rows, { left, top, cell }, colorOf) {
  return rows.flatMap((row, i) => Array.from(row, (weight, j) => {
    const x = left + (j + 0.5) * cell, y = top + (i + 0.5) * cell;
    const style = { fill: textColorOn(colorOf(weight)), fontSize: cell >= 42 ? "12px" : "10px" };
    return s("text", { class: "in-cell", x, y, style, "text-anchor": "middle", "dominant-baseline": "central" }, short(weight));
  }));
}

const labelElement = (text, attributes) => s("text", { class: "label", "dominant-baseline": "central", ...attributes }, text);

/** Return a canvas with one pixel for each weight. */
export function pixels(rows, colorOf = colorsOf(rows).colorOf) {
  const canvas = document.createElement("canvas");
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  rows.flat().forEach((weight, i) => {
    const { r, g, b } = colorOf(weight);
    image.data.set([r, g, b, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Return the layout of a heatmap at most `width` wide, in pixels: `left` and `top` of the cells, the size of
 * a `cell`, the numbers of `rows` and columns (`count`), and `every`, the step between labels that fit.
 */
function layoutOf(names, rows, width) {
  const count = names.length, labels = fitTexts(names, FONT, Math.min(width * 0.3, 130));
  const left = Math.ceil(maxTextWidth(labels, FONT)) + GAP, cell = cellSize((width - left) / count, count);
  return {
    labels, cell, count, rows, left,
    top: left,
    every: Math.ceil(LABEL / cell),
    width: Math.min(left + Math.max(cell * count, 170), width),
    height: left + cell * rows + 34,
  };
}

/**
 * Return the size of a cell, rounded down to whole pixels for sharp edges, or to halves under 8 pixels; under half a
 * pixel, it is not rounded.
 */
function cellSize(space, count) {
  const limit = Math.max(CELL, Math.min(MAX_CELL, MAX_SIDE / count));
  const fine = space < 8 ? 2 : 1;
  return Math.floor(Math.min(space, limit) * fine) / fine || space;
}

/** The number of boxes of a color scale. */
const STEPS = 24;

/** Draw the color scale. */
function scaleElements({ left, height, width }, { signed, limit, colorOf }) {
  const length = Math.min(120, width - left - 90), y = height - 22, start = left + 44;
  const text = (x, number) =>
    s("text", { class: "muted", x, y: y + 5, "dominant-baseline": "central" }, decimals(number, limit < 0.1 ? 3 : 2));
  const lowest = signed ? -limit : 0;
  return [
    text(left, lowest),
    Array.from({ length: STEPS }, (_, i) => s("rect", {
      x: start + (i * length) / STEPS, y, width: length / STEPS, height: 10, "shape-rendering": "crispEdges",
      fill: colorOf(lowest + ((limit - lowest) * i) / (STEPS - 1)),
    })),
    text(start + length + 6, limit),
  ];
}

/** The pointer and the keyboard over a heatmap; the readout names the cell. An element for each of 22,500 cells would be slow. */
export class HeatmapCursor {
  /**
   * `layout` is the layout of the heatmap and `name` its accessible name. The functions get a cell `at`, `{row, column}`:
   * `onmove` is called when a key moves the cursor, `onpick` on a click, Enter or Space, and `onpoint(at, announce)` for the
   * pointed or current cell. `announce` is false if the reader neither points at the cell nor moves to it.
   */
  constructor({ layout, name, onpoint, onmove, onpick }) {
    Object.assign(this, { layout, onpoint, onmove, onpick });
    const { left, top, cell, rows, count } = layout;
    this.element = h(
      "div",
      {
        class: "cells", role: "application", tabindex: "0", "aria-label": `${name}; the arrow keys move between cells`,
        style: { left: `${left}px`, top: `${top}px`, width: `${count * cell}px`, height: `${rows * cell}px` },
        onpointermove: (event) => {
          const at = this.#cellAt(event);
          if (at.row !== this.pointed.row || at.column !== this.pointed.column) this.#point(at, true);
        },
        onpointerleave: () => this.#point(this.at, false),
        onclick: (event) => this.onpick(this.#cellAt(event)),
        onkeydown: (event) => this.#press(event),
      },
      ["band chosen", "band row", "band column", "cell"].map((kind) => h("div", { class: kind })),
    );
    this.#place({ cell: 1 });
  }

  /** Set properties of the style to the positions of rows and columns. */
  #place(indices) {
    for (const [name, index] of Object.entries(indices)) {
      this.element.style.setProperty(`--${name}`, `${index * this.layout.cell}px`);
    }
  }

  /** Show the current cell and the row of the chosen token. */
  show(at, chosen) {
    this.at = at;
    this.#place({ chosen, ...at });
    this.#point(at, document.activeElement === this.element);
  }

  #point(at, announce) {
    this.#place({ "pointed-row": at.row, "pointed-column": at.column });
    this.pointed = at;
    this.onpoint(at, announce);
  }

  #cellAt({ clientX, clientY }) {
    const { left, top } = this.element.getBoundingClientRect();
    const { cell, rows, count } = this.layout;
    const index = (distance, size) => Math.min(Math.max(Math.floor(distance / cell), 0), size - 1);
    return { row: index(clientY - top, rows), column: index(clientX - left, count) };
  }

  #press(event) {
    if (event.altKey || event.metaKey) return;
    const to = cellAfterKey(event, this.at, this.layout.rows, this.layout.count);
    if (event.key === "Enter" || event.key === " ") this.onpick(this.at);
    else if (to) this.onmove(to);
    else return;
    event.preventDefault();
  }
}
