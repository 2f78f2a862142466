/** A line under a picture that says what is pointed at, once. */

import { h } from "../frame/elements.js";

export class Readout {
  constructor() {
    this.element = h("p", { class: "readout", role: "status" });
  }

  /**
   * Say something, of words and elements; nothing is said again. `aloud` is false for what assistive
   * technology need not read: what the control with the focus says itself, and how to use a picture.
   */
  say(parts, aloud = true) {
    const line = h("p", {}, parts);
    if (line.textContent === this.element.textContent) return;
    this.element.setAttribute("aria-live", aloud ? "polite" : "off");
    this.element.replaceChildren(...line.childNodes);
  }
}
