/** A matrix of weights with one pixel for each cell. */

import { weightColour } from "../frame/colours.js";

const { rgb } = globalThis.d3;

/** A canvas as many pixels wide as there are words; `most` is the weight of the last colour. */
export function pixels(rows, most) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = rows.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(rows.length, rows.length);
  const known = new Map();
  let at = 0;
  for (const row of rows) {
    for (const weight of row) {
      const colour = weightColour(weight, most);
      if (!known.has(colour)) known.set(colour, rgb(colour));
      const { r, g, b } = known.get(colour);
      image.data.set([r, g, b, 255], at);
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
