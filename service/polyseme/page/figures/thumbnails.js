/** Small pictures of every head of every layer, to choose from. */

import { h } from "../frame/elements.js";
import { largest } from "./heatmap_layout.js";
import { pixels } from "./pixels.js";
import { roving } from "./roving.js";

/** Pixels of a small picture: of a longer sentence, several words share one. */
const SIDE = 56;

/** What a head is called. */
export function headName(layer, head) {
  return head === "mean" ? `Layer ${layer}, mean of heads` : `Layer ${layer}, head ${head}`;
}

/** `element` with a row for each layer: the mean of its heads, then each; `onpick(layer, head)`. */
export class Thumbnails {
  constructor(onpick) {
    this.onpick = onpick;
    this.element = h("div", { class: "thumbnails", role: "group", "aria-label": "Layers and heads" });
    this.stop = roving(this.element, () => this.across);
  }

  /** Paint them all; `reading` has `layers`, `heads` and `weights(layer, head)`. */
  draw(reading) {
    const heads = ["mean", ...Array.from({ length: reading.heads }, (_, i) => i)];
    this.across = heads.length;
    this.buttons = [];
    this.element.style.gridTemplateColumns = `max-content repeat(${heads.length}, minmax(2rem, 3.5rem))`;
    this.element.replaceChildren(
      h("span", {}),
      ...heads.map((head) => h("span", { class: "head" }, head)),
      ...Array.from({ length: reading.layers }, (_, layer) => [
        h("span", { class: "layer" }, `Layer ${layer}`),
        ...heads.map((head) => this.#button(reading, layer, head)),
      ]).flat(),
    );
  }

  #button(reading, layer, head) {
    const rows = reading.weights(layer, head);
    const name = headName(layer, head);
    const button = h(
      "button",
      {
        type: "button", class: "thumbnail", "aria-label": name, title: name,
        onclick: () => this.onpick(layer, head),
      },
      pixels(pooled(rows), largest(rows)),
    );
    this.buttons.push({ button, layer, head });
    return button;
  }

  /** Mark those that are shown in large: one, or with `each` all heads of a layer. */
  choose(layer, head) {
    for (const one of this.buttons) {
      const shown = one.layer === layer && (head === "each" ? one.head !== "mean" : one.head === head);
      one.button.setAttribute("aria-pressed", shown);
    }
    const first = this.element.querySelector("[aria-pressed=true]");
    if (!this.element.contains(document.activeElement)) this.stop(first);
  }
}

/** A matrix that is not larger than its picture: of cells that share a pixel, the largest is seen. */
function pooled(rows) {
  if (rows.length <= SIDE) return rows;
  const place = (i) => Math.floor((i * SIDE) / rows.length);
  const found = Array.from({ length: SIDE }, () => new Float64Array(SIDE));
  rows.forEach((row, i) => {
    const into = found[place(i)];
    row.forEach((weight, j) => {
      into[place(j)] = Math.max(into[place(j)], weight);
    });
  });
  return found;
}
