/** The controls for layer and head: select boxes, the colors of the heads, and thumbnails. */

import { pixels } from "./heatmap.js";
import HEADS from "./heads.json" with { type: "json" };
import { categoryColor } from "../colors.js";
import { h, labeled, numbered, quietButton, rovingTabindex, selectBox, setOptions } from "../elements.js";

/** Return the name of a head of a layer; `head` is a number, `mean` or `contributions`. */
export function headName({ model }, layer, head) {
  if (head === "contributions") return `Layer ${layer}, contributions`;
  return head === "mean" ? `Layer ${layer}, mean of heads` : `Layer ${layer}, head ${head}${attendsTo(model, layer, head)}`;
}

/** Return what a head attends to, as the documentation names it, in brackets; "" for other models. */
const attendsTo = (model, layer, head) => (HEADS[model] ? ` (${HEADS[model][layer][head]})` : "");

/** Return the color of a head's lines. */
export function headColor(head) {
  return categoryColor(typeof head === "number" ? head : 0);
}

const PICTURES = [["heatmap", "Heatmap"], ["lines", "Lines"]];

/** The controls of the figure: picture, layer, head and, for lines of each head, the heads to show. */
export class HeadControls {
  constructor(page) {
    this.page = page;
    this.pictures = PICTURES.map(([picture, name]) =>
      quietButton(name, () => page.update({ picture }), { "data-picture": picture }));
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
    for (const button of this.pictures) {
      button.setAttribute("aria-pressed", (button.dataset.picture === "lines") === lines);
    }
    const numbers = numbered(heads).map(([number]) => number);
    const named = numbers.map((number) => [number, number + attendsTo(model, layer, number)]);
    const options = [["contributions", "contributions"], ["mean", "mean of heads"], ...named];
    if (lines) options.push(["each", "each in its color"]);
    this.#setOptions(this.layer, numbered(layers), layer);
    this.#setOptions(this.head, options, head);
    this.layerField.hidden = layers < 2;
    this.legend.hidden = head !== "each";
    const listed = chosen === "" ? numbers : chosen.split(",");
    this.chosen = numbers.filter((number) => listed.includes(number)).map(Number);
    if (this.legend.hidden) return;
    if (this.boxes.length !== heads) this.#makeBoxes(numbers);
    this.boxes.forEach(({ box, swatch }, i) => {
      box.checked = this.chosen.includes(i);
      swatch.style.background = headColor(i);
    });
  }

  /** Set the options only if they differ: replacing them would close an open list. */
  #setOptions(select, options, value) {
    const current = Array.from(select.options, (option) => option.textContent);
    if (options.length !== current.length || options.some(([, text], i) => text !== current[i])) {
      setOptions(select, options, String(value));
    }
    select.value = String(value);
  }

  #makeBoxes(numbers) {
    const update = () => {
      const on = this.boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);
      this.page.update({ heads: on.length === this.boxes.length ? "" : on.join(",") || "none" });
    };
    this.boxes = numbers.map((number) => ({
      box: h("input", { type: "checkbox", value: number, onchange: update }),
      swatch: h("span", { class: "swatch" }),
    }));
    this.legend.replaceChildren(
      h("legend", {}, "Heads, in the order of the squares"),
      ...this.boxes.map(({ box, swatch }, i) => h("label", {}, box, swatch, `Head ${i}`)),
    );
  }
}

/** The maximum side of a thumbnail in pixels; in a longer sentence, several words share a pixel. */
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
    const rows = encoded.weights(layer, head);
    const name = headName(encoded, layer, head);
    const button = h(
      "button",
      {
        type: "button", class: "thumbnail", "aria-label": name, title: name,
        onclick: () => this.onpick(layer, head),
      },
      pixels(maxPooled(rows)),
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

/** Reduce weights to at most MAX_SIDE rows and columns; a pixel has the maximum of its cells. */
function maxPooled(rows) {
  if (rows[0].length <= MAX_SIDE) return rows;
  const pixel = (i) => Math.floor((i * MAX_SIDE) / rows[0].length);
  const pooled = Array.from({ length: MAX_SIDE }, () => new Float64Array(MAX_SIDE));
  rows.forEach((row, i) => {
    const target = pooled[pixel(i)];
    row.forEach((weight, j) => {
      target[pixel(j)] = Math.max(target[pixel(j)], weight);
    });
  });
  return pooled;
}
