/** The words that look, over a drawing of lines: to point at, and to go through with the arrows. */

import { freshId, h } from "../frame/elements.js";
import { shortened } from "./lettering.js";

const MANY = 10;

/** A list beside lines; see `links` for the measures. */
export class LookingWords {
  /** `onlight(row)`: where the pointer or the focus is, null for nowhere; `onpick(row)`. */
  constructor(words, { row, top, left }, { name, onlight, onpick }) {
    Object.assign(this, { onlight, onpick, at: 0 });
    this.options = words.map((word, i) => h("div", {
      role: "option", id: freshId("looking"), "aria-label": shortened(word),
      onpointerenter: () => onlight(i), onclick: () => onpick(i),
    }));
    this.element = h(
      "div",
      {
        class: "looking", role: "listbox", tabindex: "0", "aria-label": name,
        onpointerleave: () => onlight(null),
        onfocus: () => onlight(this.at),
        onblur: () => onlight(null),
        onkeydown: (event) => this.#pressed(event),
      },
      this.options,
    );
    Object.assign(this.element.style, { top: `${top}px`, width: `${left}px` });
    for (const option of this.options) option.style.height = `${row}px`;
  }

  /** Mark the chosen word, from which the arrows go on. */
  choose(chosen) {
    this.options.forEach((option, i) => option.setAttribute("aria-selected", i === chosen));
    this.#move(chosen);
  }

  #move(to) {
    this.options[this.at].classList.remove("active");
    this.at = Math.min(Math.max(to, 0), this.options.length - 1);
    this.options[this.at].classList.add("active");
    this.element.setAttribute("aria-activedescendant", this.options[this.at].id);
  }

  #pressed(event) {
    const to = {
      ArrowUp: this.at - 1, ArrowDown: this.at + 1, PageUp: this.at - MANY, PageDown: this.at + MANY,
      Home: 0, End: this.options.length - 1,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.onpick(this.at);
    else if (to === undefined) return;
    else {
      this.#move(to);
      this.onlight(this.at);
    }
    event.preventDefault();
  }
}
