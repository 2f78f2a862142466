/** The controls for layer and head: select boxes and thumbnails. */

import { pixels } from "./heatmap.js";
import { readJson } from "../client.js";
import { h, labeled, numbered, quietButton, rovingTabindex, selectBox, setOptions } from "../elements.js";

/** What the heads of the models attend to: names for each layer, which `docs/quality.md` explains. */
const HEADS = await readJson("attention/heads.json");

/** Return the name of a head of a layer; `head` is a number, `mean` or `contributions`. */
export function headName({ model }, layer, head) {
  if (head === "contributions") return `Layer ${layer}, contributions`;
  return head === "mean" ? `Layer ${layer}, mean of heads` : `Layer ${layer}, head ${head}${attendsTo(model, layer, head)}`;
}

/** Return what a head attends to, as the documentation names it, in brackets; "" for other models. */
const attendsTo = (model, layer, head) => (HEADS[model] ? ` (${HEADS[model][layer][head]})` : "");

const PICTURES = ["Heatmap", "Lines"];

/** The controls of the figure: picture, layer and head. */
export class HeadControls {
  constructor(page) {
    this.pictures = PICTURES.map((name) => quietButton(name, () => page.update({ picture: name.toLowerCase() })));
    this.layer = selectBox([], "0", (layer) => page.update({ layer }));
    this.head = selectBox([], "contributions", (head) => page.update({ head }));
    this.layerField = labeled("Layer", this.layer);
    this.controls = [
      h("div", { class: "buttons", role: "group", "aria-label": "Picture" }, this.pictures),
      this.layerField,
      labeled("Head", this.head),
    ];
  }

  /** Update the controls. */
  show({ model, layers, heads }, { layer, head, lines }) {
    this.pictures.forEach((button, i) => button.setAttribute("aria-pressed", String(Boolean(i) === lines)));
    const options = [
      ["contributions", "contributions"],
      ["mean", "mean of heads"],
      ...numbered(heads).map(([number]) => [number, number + attendsTo(model, layer, number)]),
    ];
    setOptions(this.layer, numbered(layers), String(layer));
    setOptions(this.head, options, String(head));
    this.layerField.hidden = layers < 2;
  }
}

/** The side of a thumbnail in pixels; in a longer sentence, a pixel has the mean color of several words. */
const MAX_SIDE = 56;

/** Thumbnails to choose from: a row for each layer, with contributions, the mean of its heads and each head. */
export class Thumbnails {
  constructor(onpick) {
    this.onpick = onpick;
    this.element = h("div", { class: "thumbnails", role: "group", "aria-label": "Layers and heads" });
    this.setStop = rovingTabindex(this.element, () => this.across);
  }

  draw(encoded) {
    const heads = ["contributions", "mean", ...Array.from({ length: encoded.heads }, (_, i) => i)];
    this.across = heads.length;
    this.buttons = [];
    this.element.style.gridTemplateColumns = `max-content minmax(2.6rem, max-content) repeat(${heads.length - 1}, minmax(1.5rem, 3.5rem))`;
    this.element.replaceChildren(
      h("span", {}),
      ...["contri\u00adbutions", ...heads.slice(1)].map((head) => h("span", { class: "head" }, head)),
      ...Array.from({ length: encoded.layers }, (_, layer) => [
        h("span", { class: "layer" }, `Layer ${layer}`),
        ...heads.map((head) => this.#button(encoded, layer, head)),
      ]).flat(),
    );
  }

  #button(encoded, layer, head) {
    const canvas = pixels(encoded.weights(layer, head));
    if (canvas.width > MAX_SIDE) canvas.style.imageRendering = "auto";
    const name = headName(encoded, layer, head);
    const button = h(
      "button",
      {
        type: "button", class: "thumbnail", "aria-label": name, title: name,
        onclick: () => this.onpick(layer, head),
      },
      canvas,
    );
    this.buttons.push({ button, layer, head });
    return button;
  }

  /** Mark the chosen head. */
  choose(layer, head) {
    for (const { button, ...at } of this.buttons) {
      button.setAttribute("aria-pressed", String(at.layer === layer && at.head === head));
    }
    this.setStop(this.element.querySelector("[aria-pressed=true]"));
  }
}
