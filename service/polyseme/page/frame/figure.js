/** A picture under its title, with the buttons that save it. */

import { png, standalone } from "./drawing.js";
import { freshId, h } from "./elements.js";
import { save } from "./saving.js";

const LEAST = 200;

/**
 * A place for a drawing. `show(drawing)` puts an SVG or a canvas into it (or, without one, empties
 * it and hides it); `width()` is the room there is; `tools` takes controls of its own.
 */
export class Figure {
  /** `file`: the name of what is saved; `title` is its heading. */
  constructor(file, title) {
    const id = freshId("figure");
    this.file = file;
    this.heading = h("h3", { id }, title);
    this.tools = h("div", { class: "tools" });
    this.caption = h("figcaption", {});
    this.body = h("div", { class: "drawing" });
    this.svgButton = h(
      "button",
      { type: "button", class: "quiet", onclick: () => this.saveSvg() },
      "Save SVG",
    );
    this.pngButton = h(
      "button",
      { type: "button", class: "quiet", onclick: () => this.savePng() },
      "Save PNG",
    );
    const saving = h("div", { class: "saving" }, this.svgButton, this.pngButton);
    this.element = h(
      "figure",
      { class: "paper", "aria-labelledby": id },
      h("div", { class: "figure-head" }, this.heading, this.tools, saving),
      this.caption,
      this.body,
    );
  }

  /** Pixels from side to side. */
  width() {
    const style = getComputedStyle(this.element);
    const inner = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // A view that was left before its answer came is not laid out, and is drawn again later.
    return inner > LEAST ? inner : LEAST;
  }

  show(drawing, ...beside) {
    this.element.hidden = !drawing;
    this.drawing = drawing;
    this.svgButton.hidden = drawing instanceof HTMLCanvasElement;
    this.body.replaceChildren(...(drawing ? [drawing, ...beside] : []));
  }

  saveSvg() {
    save(`${this.file}.svg`, standalone(this.drawing), "image/svg+xml");
  }

  async savePng() {
    save(`${this.file}.png`, await png(this.drawing), "image/png");
  }
}
