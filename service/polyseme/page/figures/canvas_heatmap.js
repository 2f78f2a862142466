/** A matrix of weights between many words, painted: there are too many cells to draw each. */

import { font } from "./lettering.js";
import { labelsOf, largest, layoutOf, legendOf } from "./heatmap_layout.js";
import { pixels } from "./pixels.js";

/** As `heatmap`, on a canvas that is sharp on the reader's screen. */
export function canvasHeatmap(words, rows, width) {
  const layout = layoutOf(words, width), most = largest(rows);
  const density = Math.max(devicePixelRatio, 1);
  const drawing = document.createElement("canvas");
  drawing.className = "heatmap";
  drawing.setAttribute("aria-hidden", "true");
  drawing.width = Math.ceil(layout.width * density);
  drawing.height = Math.ceil(layout.height * density);
  drawing.style.width = `${layout.width}px`;
  const context = drawing.getContext("2d");
  context.scale(density, density);
  // Each cell stays a square with sharp edges; where a cell has no whole pixel they are averaged.
  context.imageSmoothingEnabled = layout.cell * density < 1;
  context.drawImage(pixels(rows, most), layout.left, layout.top, layout.side, layout.side);
  context.fillStyle = getComputedStyle(document.body).color;
  context.textBaseline = "middle";
  labels(context, layout);
  legend(context, layout, most);
  return { drawing, layout, light() {} };
}

function labels(context, layout) {
  context.font = font(layout.size);
  for (const { text, x, y, turned } of labelsOf(layout)) {
    context.save();
    context.translate(x, y);
    if (turned) context.rotate(-Math.PI / 2);
    context.textAlign = turned ? "left" : "right";
    context.fillText(text, 0, 0);
    context.restore();
  }
}

function legend(context, layout, most) {
  const { boxes, texts } = legendOf(layout, most);
  context.font = font(12);
  context.textAlign = "left";
  for (const { text, x, y } of texts) context.fillText(text, x, y);
  for (const { x, y, width, height, fill } of boxes) {
    context.fillStyle = fill;
    context.fillRect(x, y, width + 0.5, height);
  }
}
