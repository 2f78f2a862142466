/** The panel that says how the chosen cell comes about. */

import { written } from "./derivation_text.js";
import { h } from "../frame/elements.js";
import { about } from "./names.js";
import { cellName, cellText } from "./trace.js";

export class DerivationPanel {
  /** `onstep(name)` goes to the card of a step. */
  constructor(onstep) {
    this.onstep = onstep;
    this.said = h("div", { role: "status", class: "derived" });
    this.from = h("div", { class: "buttons made-from" });
    this.element = h("section", { class: "derivation", "aria-label": "How the chosen cell comes about", tabindex: "0" },
      this.said, this.from);
  }

  /** Say the derivation of a cell. */
  show(trace, cell, derivation, head, places) {
    const key = [cellText(cell), head, places].join();
    if (key === this.key && trace === this.trace) return;
    Object.assign(this, { key, trace });
    const lines = written(derivation, places);
    const where = trace.headed(cell.name) ? `, head ${head}` : "";
    this.said.replaceChildren(
      h("p", { class: "what" }, h("strong", {}, `${cellName(trace, cell)}${where}`), " ",
        h("code", {}, derivation.symbols)),
      ...lines.map((line) => h("p", { class: "sum number" }, line)),
      ...(derivation.note ? [h("p", {}, derivation.note)] : []),
      ...(!lines.length && !derivation.note ? [h("p", {}, "Only the formula is shown for this step.")] : []),
      ...(derivation.differs
        ? [h("p", { class: "differs" }, `The service gives ${derivation.given}, this sum ${derivation.computed}: they differ.`)]
        : []),
    );
    const names = [...new Set(derivation.parts.map(({ name }) => name))];
    this.from.replaceChildren(...(names.length ? [h("span", { class: "muted" }, "Made from")] : []),
      ...names.map((name) => h("button", { type: "button", class: "quiet small", onclick: () => this.onstep(name) },
        about(name).title)));
  }
}
