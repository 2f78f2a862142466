/** The weights that are shown, as a table to read and to take away. */

import { h } from "../frame/elements.js";
import { decimals } from "../frame/numbers.js";
import { copy } from "../frame/saving.js";

const MOST = 60;

export class Numbers {
  constructor() {
    this.place = h("div", {});
    this.said = h("span", { role: "status", class: "said" });
    this.element = h("details", { class: "card numbers", ontoggle: () => this.#fill() },
      h("summary", {}, "The numbers"), this.place);
  }

  /** The table that would be shown; it is made when somebody looks. */
  show(words, rows, name) {
    if (this.rows === rows && this.name === name) return;
    Object.assign(this, { words, rows, name, filled: false });
    this.#fill();
  }

  #fill() {
    if (!this.element.open || this.filled || !this.rows) return;
    this.filled = true;
    this.said.textContent = "";
    if (this.words.length > MOST) {
      this.place.replaceChildren(h("p", {},
        `A table of more than ${MOST} words would be hard to read: save the JSON instead.`));
      return;
    }
    this.place.replaceChildren(
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "quiet", onclick: () => this.#copy() }, "Copy as tab-separated text"),
        this.said),
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of weights" },
        this.#table()),
    );
  }

  #table() {
    const { words, rows, name } = this;
    const head = (scope, word) => h("th", { scope }, h("bdi", {}, word));
    return h(
      "table",
      {},
      h("caption", {}, `${name}: each row looks at the columns`),
      h("thead", {}, h("tr", {}, h("td", {}), words.map((word) => head("col", word)))),
      h("tbody", {}, words.map((word, i) => h("tr", {}, head("row", word),
        Array.from(rows[i], (weight) => h("td", { class: "number" }, decimals(weight, 3)))))),
    );
  }

  async #copy() {
    const done = await copy(separated([["", ...this.words], ...this.rows.map((row, i) => [this.words[i], ...row])]));
    this.said.textContent = done ? "Copied." : "The browser does not allow it; mark the table and copy.";
  }
}

/** Rows of cells as tab-separated text, quoted where spreadsheets would read something else. */
export const separated = (rows) =>
  rows.map((cells) => cells.map((cell) => quoted(String(cell))).join("\t")).join("\n");

const quoted = (text) => (/["\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
