/** The controls for layer and head: select boxes, the colors of the heads, and thumbnails. */

import { pixels } from "./heatmap.js";
import { readJson } from "../client.js";
import { categoryColor } from "../colors.js";
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

/** Return the color of a head's lines. */
export const headColor = (head) => categoryColor(typeof head === "number" ? head : 0);

const PICTURES = ["Heatmap", "Lines"];

/** The controls of the figure: picture, layer, head and, for lines of each head, the heads to show. */
export class HeadControls {
  constructor(page) {
    this.page = page;
    this.pictures = PICTURES.map((name) => quietButton(name, () => page.update({ picture: name.toLowerCase() })));
    this.layer = selectBox([], "0", (layer) => page.update({ layer }));
    this.head = selectBox([], "contributions", (head) => page.update({ head }));
    this.layerField = labeled("Layer", this.layer);
    this.controls = [
      h("div", { class: "buttons", role: "group", "aria-label": "Picture" }, this.pictures),
      this.layerField,
      labeled("Head", this.head),
    ];
    this.legend = h("fieldset", { class: "heads", hidden: true });
    this.boxes = [];
  }

  /** Update the controls. `chosen` lists the heads in the address, such as `0,2`; empty means all. */
  show({ model, layers, heads }, { layer, head, lines, chosen }) {
    this.pictures.forEach((button, i) => button.setAttribute("aria-pressed", String(Boolean(i) === lines)));
    const numbers = numbered(heads).map(([number]) => number);
    const options = [
      ["contributions", "contributions"],
      ["mean", "mean of heads"],
      ...numbers.map((number) => [number, number + attendsTo(model, layer, number)]),
    ];
    if (lines) options.push(["each", "each in its color"]);
    setOptions(this.layer, numbered(layers), String(layer));
    setOptions(this.head, options, String(head));
    this.layerField.hidden = layers < 2;
    this.legend.hidden = head !== "each";
    const listed = chosen === "" ? numbers : chosen.split(",");
    this.chosen = numbers.filter((number) => listed.includes(number)).map(Number);
    if (this.boxes.length !== heads) this.#makeBoxes(numbers);
    this.boxes.forEach((box, i) => {
      box.checked = this.chosen.includes(i);
      box.nextSibling.style.background = headColor(i);
    });
  }

  #makeBoxes(numbers) {
    const update = () => {
      const on = this.boxes.filter(({ checked }) => checked).map(({ value }) => value);
      this.page.update({ heads: on.length === this.boxes.length ? "" : on.join(",") || "none" });
    };
    this.boxes = numbers.map((number) => h("input", { type: "checkbox", value: number, onchange: update }));
    this.legend.replaceChildren(
      h("legend", {}, "Heads, in the order of the squares"),
      ...this.boxes.map((box, i) => h("label", {}, box, h("span", { class: "swatch" }), `Head ${i}`)),
    );
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

  /** Mark the chosen head; `each` marks all heads of the layer. */
  choose(layer, head) {
    for (const { button, ...at } of this.buttons) {
      const chosen = at.layer === layer && (head === "each" ? typeof at.head === "number" : at.head === head);
      button.setAttribute("aria-pressed", chosen);
    }
    const first = this.element.querySelector("[aria-pressed=true]");
    if (!this.element.contains(document.activeElement)) this.setStop(first);
  }
}
