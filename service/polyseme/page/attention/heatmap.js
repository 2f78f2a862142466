/** A heatmap of attention weights, as SVG or as canvas, and its cursor. */

import { scaleBoxes, textColorOn, weightColor } from "../colors.js";
import { h, s, svgDrawing, uniqueId } from "../elements.js";
import { cellAfterKey } from "../table.js";
import { decimals, fitTexts, font, maxTextWidth, short } from "../text.js";

const { max, rgb } = globalThis.d3;

/** The maximum size of a cell in pixels: MAX_SIDE divided by the number of words, but from CELL to MAX_CELL. */
const CELL = 34, MAX_CELL = 64, MAX_SIDE = 660;
/** The minimum size of a cell that shows its weight. */
const MIN_NUMBERED_CELL = 30;
const MIN_FONT = 8, MAX_FONT = 12;
const GAP = 6;

/** Return the largest weight. */
export const largest = (rows) => max(rows, (row) => max(row)) ?? 0;

/**
 * Draw a heatmap of weights as SVG, at most `width` pixels wide. Return the `drawing`, its `layout` and
 * `highlight(row, column)`, which highlights the labels of a cell.
 */
export function svgHeatmap(words, rows, width) {
  const layout = layoutOf(words, width), maxWeight = largest(rows);
  const labels = labelsOf(layout).map((label) => ({ ...label, element: svgLabel(label, layout.size) }));
  const scale = scaleOf(layout, maxWeight);
  const drawing = svgDrawing(
    "heatmap",
    layout.width,
    layout.height,
    { "aria-hidden": "true" },
    ...svgCells(rows, layout, maxWeight),
    ...(layout.cell >= MIN_NUMBERED_CELL ? svgNumbers(rows, layout, maxWeight) : []),
    ...labels.map(({ element }) => element),
    ...scale.boxes.map((box) => s("rect", { ...box, "shape-rendering": "crispEdges" })),
    ...scale.texts.map(({ text, x, y }) =>
      s("text", { class: "muted", x, y, "dominant-baseline": "central" }, text)),
  );
  const highlight = (row, column) => {
    for (const label of labels) {
      label.element.classList.toggle("lit", label.row === row || label.column === column);
    }
  };
  return { drawing, layout, highlight };
}

/** Draw one path for each color: an element for each of 22,500 cells would be slow. */
function svgCells(rows, { left, top, cell }, maxWeight) {
  const paths = new Map(), size = cell - (cell >= 12 ? 1 : 0);
  rows.forEach((row, i) => row.forEach((weight, j) => {
    const color = weightColor(weight, maxWeight);
    if (!paths.has(color)) paths.set(color, []);
    paths.get(color).push(`M${left + j * cell} ${top + i * cell}h${size}v${size}h${-size}z`);
  }));
  return Array.from(paths, ([fill, parts]) =>
    s("path", { fill, d: parts.join(""), "shape-rendering": "crispEdges" }));
}

function svgNumbers(rows, { left, top, cell }, maxWeight) {
  return rows.flatMap((row, i) => Array.from(row, (weight, j) => {
    const x = left + (j + 0.5) * cell - 0.5, y = top + (i + 0.5) * cell - 0.5;
    const text = s("text", { class: "in-cell", x, y, "text-anchor": "middle", "dominant-baseline": "central" });
    text.textContent = short(weight);
    text.style.fill = textColorOn(weightColor(weight, maxWeight));
    text.style.fontSize = cell >= 42 ? "12px" : "10px";
    return text;
  }));
}

function svgLabel({ text, x, y, rotated }, size) {
  const element = s(
    "text",
    {
      class: "label", x: rotated ? 0 : x, y: rotated ? 0 : y, "text-anchor": rotated ? "start" : "end",
      "dominant-baseline": "central", transform: rotated && `translate(${x} ${y}) rotate(-90)`,
    },
    text,
  );
  element.style.fontSize = `${size}px`;
  return element;
}

/** Draw the same heatmap on a canvas in the screen's resolution, for sentences that are too long for SVG. */
export function canvasHeatmap(words, rows, width) {
  const layout = layoutOf(words, width), maxWeight = largest(rows);
  const density = Math.max(devicePixelRatio, 1);
  const drawing = document.createElement("canvas");
  drawing.className = "heatmap";
  drawing.setAttribute("aria-hidden", "true");
  drawing.width = Math.ceil(layout.width * density);
  drawing.height = Math.ceil(layout.height * density);
  drawing.style.width = `${layout.width}px`;
  const context = drawing.getContext("2d");
  context.scale(density, density);
  // Cells have sharp edges; cells smaller than a pixel are averaged.
  context.imageSmoothingEnabled = layout.cell * density < 1;
  context.drawImage(pixels(rows, maxWeight), layout.left, layout.top, layout.side, layout.side);
  context.fillStyle = getComputedStyle(document.body).color;
  context.textBaseline = "middle";
  context.font = font(layout.size);
  for (const { text, x, y, rotated } of labelsOf(layout)) {
    context.save();
    context.translate(x, y);
    if (rotated) context.rotate(-Math.PI / 2);
    context.textAlign = rotated ? "left" : "right";
    context.fillText(text, 0, 0);
    context.restore();
  }
  const { boxes, texts } = scaleOf(layout, maxWeight);
  context.font = font(12);
  context.textAlign = "left";
  for (const { text, x, y } of texts) context.fillText(text, x, y);
  for (const box of boxes) {
    context.fillStyle = box.fill;
    context.fillRect(box.x, box.y, box.width + 0.5, box.height);
  }
  return { drawing, layout, highlight() {} };
}

/** Return a canvas with one pixel for each weight; weight `maxWeight` gets the last color of the ramp. */
export function pixels(rows, maxWeight) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = rows.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(rows.length, rows.length);
  const known = new Map();
  let at = 0;
  for (const row of rows) {
    for (const weight of row) {
      const color = weightColor(weight, maxWeight);
      if (!known.has(color)) known.set(color, rgb(color));
      const { r, g, b } = known.get(color);
      image.data.set([r, g, b, 255], at);
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Return the layout of a heatmap at most `width` wide, in pixels: `left` and `top` of the cells, the size of
 * a `cell`, the `side` of the grid, the font `size`, and `every`, the step between labels that fit.
 */
function layoutOf(words, width) {
  const count = words.length;
  let size = MAX_FONT, layout;
  // The font size depends on the space that the labels leave, so compute it twice.
  for (let round = 0; round < 2; round += 1) {
    const labels = fitTexts(words, size, Math.min(width * 0.3, 130));
    const labelWidth = Math.ceil(maxTextWidth(labels, size));
    const cell = cellSize((width - labelWidth - GAP) / count, count);
    const every = Math.ceil((MIN_FONT + 2) / cell);
    size = Math.min(Math.max(cell * every * 0.75, MIN_FONT), MAX_FONT);
    layout = { labels, cell, every, size, left: labelWidth + GAP, top: labelWidth + GAP };
  }
  const side = layout.cell * count;
  return {
    ...layout,
    count,
    side,
    width: Math.min(layout.left + Math.max(side, 170), width),
    height: layout.top + side + 34,
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

/** Return the labels that fit: `{text, x, y}` with `row`, or with `column` and `rotated`. */
function labelsOf({ labels, left, top, cell, every }) {
  const shown = labels.map((text, i) => ({ text, i })).filter(({ i }) => i % every === 0);
  return [
    ...shown.map(({ text, i }) => ({ text, row: i, x: left - GAP, y: top + (i + 0.5) * cell })),
    ...shown.map(({ text, i }) => (
      { text, column: i, x: left + (i + 0.5) * cell, y: top - GAP, rotated: true }
    )),
  ];
}

/** Return the color scale: boxes `{x, y, width, height, fill}` and texts `{text, x, y}`. */
function scaleOf({ left, top, side, width }, maxWeight) {
  const length = Math.min(120, width - left - 50), y = top + side + 12;
  const boxes = scaleBoxes(left + 12, y, length, weightColor);
  const texts = [
    { text: "0", x: left, y: y + 5 },
    { text: decimals(maxWeight, maxWeight < 0.1 ? 3 : 2), x: left + length + 17, y: y + 5 },
  ];
  return { boxes, texts };
}

/**
 * The pointer and the keyboard over a heatmap: an ARIA grid that contains only the current cell, with
 * its row and column numbers. An element for each of 22,500 cells would be slow.
 */
export class HeatmapCursor {
  /**
   * `layout` is the layout of the heatmap and `name` its accessible name. The functions get a cell `at`,
   * `{row, column}`: `describe` returns its text, `onmove` is called when a key moves the cursor, `onpick` on a
   * click, Enter or Space, and `onpoint(at, announce)` for the pointed or current cell. `announce` is false
   * after the pointer leaves, and if the focused grid announces the cell.
   */
  constructor({ layout, name, describe, onpoint, onmove, onpick }) {
    Object.assign(this, { layout, describe, onpoint, onmove, onpick });
    // Two elements alternate: screen readers may not announce a new name of the same active element.
    const cell = () =>
      h("div", { class: "cell", role: "gridcell", id: uniqueId("cell"), "aria-selected": "true" });
    const band = (kind) => h("div", { class: `band ${kind}`, "aria-hidden": "true" });
    [this.cell, this.spare] = [cell(), cell()];
    this.spare.hidden = true;
    this.row = h("div", { role: "row" }, this.cell, this.spare);
    this.bands = { chosen: band("chosen"), row: band("row"), column: band("column") };
    this.element = h(
      "div",
      {
        class: "cells", role: "grid", tabindex: "0", "aria-label": name, "aria-readonly": "true",
        "aria-rowcount": layout.count, "aria-colcount": layout.count,
        "aria-activedescendant": this.cell.id,
        onpointermove: (event) => {
          const at = this.#cellAt(event);
          if (at.row !== this.pointed.row || at.column !== this.pointed.column) this.#point(at, true);
        },
        onpointerleave: () => this.#point(this.at, false),
        onclick: (event) => this.onpick(this.#cellAt(event)),
        onkeydown: (event) => this.#press(event),
      },
      this.row,
      ...Object.values(this.bands),
    );
    setBox(this.element, layout.left, layout.top, layout.side, layout.side);
  }

  /** Show the current cell and the row of the chosen token. */
  show(at, chosen) {
    const { cell, side } = this.layout;
    if (this.at && (at.row !== this.at.row || at.column !== this.at.column)) {
      [this.cell, this.spare] = [this.spare, this.cell];
      this.spare.hidden = true;
      this.cell.hidden = false;
      this.element.setAttribute("aria-activedescendant", this.cell.id);
    }
    this.at = at;
    setBox(this.bands.chosen, 0, chosen * cell, side, cell);
    setBox(this.cell, at.column * cell, at.row * cell, cell, cell);
    this.row.setAttribute("aria-rowindex", at.row + 1);
    this.cell.setAttribute("aria-colindex", at.column + 1);
    this.cell.setAttribute("aria-label", this.describe(at));
    this.#point(at, document.activeElement !== this.element);
  }

  #point(at, announce) {
    const { cell, side } = this.layout;
    setBox(this.bands.row, 0, at.row * cell, side, cell);
    setBox(this.bands.column, at.column * cell, 0, cell, side);
    this.pointed = at;
    this.onpoint(at, announce);
  }

  #cellAt({ clientX, clientY }) {
    const { left, top, width } = this.element.getBoundingClientRect();
    const { count } = this.layout;
    const index = (distance) => Math.min(Math.max(Math.floor((distance / width) * count), 0), count - 1);
    return { row: index(clientY - top), column: index(clientX - left) };
  }

  #press(event) {
    if (event.altKey || event.metaKey) return;
    const { count } = this.layout;
    const to = cellAfterKey(event, this.at, count, count);
    if (event.key === "Enter" || event.key === " ") this.onpick(this.at);
    else if (to) this.onmove(to);
    else return;
    event.preventDefault();
  }
}

function setBox(element, left, top, width, height) {
  Object.assign(element.style, {
    left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`,
  });
}
