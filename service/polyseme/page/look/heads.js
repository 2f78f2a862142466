/** Which picture, which layer and which heads: the controls of the picture of attention. */

import { choice, h, labelled, offer } from "../frame/elements.js";
import { colourOf } from "../figures/links.js";

const PICTURES = [["heatmap", "Heatmap"], ["lines", "Lines"]];

export class HeadControls {
  constructor(page) {
    this.page = page;
    this.pictures = PICTURES.map(([picture, name]) => h(
      "button",
      { type: "button", class: "quiet", "data-picture": picture, onclick: () => page.go({ picture }) },
      name,
    ));
    this.layer = choice([], "0", (layer) => page.go({ layer }));
    this.head = choice([], "mean", (head) => page.go({ head }));
    this.layerField = labelled("Layer", this.layer);
    this.controls = [
      h("div", { class: "buttons", role: "group", "aria-label": "Picture" }, this.pictures),
      this.layerField,
      labelled("Head", this.head),
    ];
    this.legend = h("fieldset", { class: "heads", hidden: true });
  }

  /** `chosen`: the heads of the address, as `0,2`; nothing for all. */
  show({ layers, heads }, { layer, head, lines, chosen }) {
    for (const button of this.pictures) {
      button.setAttribute("aria-pressed", (button.dataset.picture === "lines") === lines);
    }
    const numbers = Array.from({ length: heads }, (_, i) => String(i));
    const offered = [["mean", "mean of heads"], ...numbers.map((number) => [number, number])];
    if (lines) offered.push(["each", "each in its colour"]);
    this.#offer(this.layer, Array.from({ length: layers }, (_, i) => [String(i), String(i)]), layer);
    this.#offer(this.head, offered, head);
    this.layerField.hidden = layers < 2;
    this.#legend(numbers, head === "each", chosen);
  }

  /** A list that is open in front of the reader is not made anew. */
  #offer(select, options, value) {
    const there = Array.from(select.options, (option) => option.value);
    if (options.length !== there.length || options.some(([key], i) => key !== there[i])) offer(select, options, String(value));
    select.value = String(value);
  }

  #legend(numbers, shown, said) {
    this.legend.hidden = !shown;
    const wanted = said === "" ? numbers : said.split(",");
    this.chosen = numbers.filter((number) => wanted.includes(number)).map(Number);
    if (!shown) return;
    if (this.boxes?.length !== numbers.length) this.#boxes(numbers);
    this.boxes.forEach(({ box, swatch }, i) => {
      box.checked = this.chosen.includes(i);
      swatch.style.background = colourOf(i);
    });
  }

  #boxes(numbers) {
    this.boxes = numbers.map((number) => ({
      box: h("input", { type: "checkbox", value: number, onchange: () => this.#switched() }),
      swatch: h("span", { class: "swatch" }),
    }));
    this.legend.replaceChildren(
      h("legend", {}, "Heads, from left to right in the squares"),
      ...this.boxes.map(({ box, swatch }, i) => h("label", {}, box, swatch, `Head ${i}`)),
    );
  }

  #switched() {
    const on = this.boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);
    this.page.go({ heads: on.length === this.boxes.length ? "" : on.join(",") || "none" });
  }
}
