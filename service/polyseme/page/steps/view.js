/** The view Step by step: every number of attention and how it is computed. */

import { StepCard } from "./card.js";
import { derive } from "./derivation.js";
import { exampleOf, requestOf, sourceOf, StepSources } from "./sources.js";
import { about, cellText, LETTERS, Trace } from "./trace.js";
import { fetchText } from "../client.js";
import { h, labeled, numbered, quietButton, selectBox, setOptions, viewElement } from "../elements.js";
import { Exchange } from "../exchange.js";

const NOT_A_MATRIX = "A matrix is not valid. Correct it to see the steps.";

/** Build the view. It is built once. */
export const build = (page) => new StepsView(page);

class StepsView {
  constructor(page) {
    this.page = page;
    this.turn = 0;
    this.cards = new Map();
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-steps", this.results);
    this.sources = new StepSources(page, () => this.exchange.clear(NOT_A_MATRIX));
    this.panel = new DerivationPanel((name) => {
      const { heading, element } = this.cards.get(name);
      element.scrollIntoView({ block: "center" });
      heading.focus({ preventScroll: true });
    });
    this.grid = h("div", { class: "step-cards" });
    this.head = selectBox(numbered(1), "0", (head) => this.page.update({ head }));
    this.headField = labeled("Head", this.head);
    this.digits = selectBox(numbered(11), "4", (decimals) => this.page.update({ decimals }));
    this.results.append(
      h("div", { class: "controls" }, labeled("Decimals", this.digits), this.headField),
      this.panel.element, this.grid,
      h("details", { class: "letters" }, h("summary", {}, "Letters of the shapes"),
        h("dl", { class: "facts" }, LETTERS.flatMap(([letter, meaning]) => [h("dt", {}, letter), h("dd", {}, meaning)]))),
      this.exchange.source,
    );
    this.element = viewElement("Step by step", "The worked examples are from notes that teach attention with numbers small enough to"
      + " compute by hand; some print wrong values (the documentation, under Worked examples, has all that they print). Choose a number to see its arithmetic: it has a solid frame, and the"
      + " numbers that it is computed from have a dashed frame.", this.sources.element, this.exchange.problem, this.results);
    this.element.classList.add("steps-view");
  }

  async show(state) {
    this.turn += 1;
    const { turn } = this;
    // The results also wait for the examples.
    if (!this.loading) this.results.setAttribute("aria-busy", "true");
    const examples = await this.#loadExamples();
    if (turn !== this.turn) return;
    this.results.removeAttribute("aria-busy");
    if (!examples) return this.exchange.clear("The worked examples could not be loaded. Reload the page.");
    this.sources.show(state, examples);
    if (sourceOf(state) === "numbers" && this.sources.editor.invalid) return this.exchange.clear(NOT_A_MATRIX);
    const request = requestOf(state, examples);
    if (!request) return this.exchange.clear("Type a sentence to see its steps.");
    const response = await this.exchange.request("v1/trace", request);
    if (turn !== this.turn) return;
    this.sources.editor.markErrors(this.exchange.errors);
    if (!response) return;
    if (response !== this.response) Object.assign(this, { response, trace: new Trace(request, response) });
    this.#draw(state, sourceOf(state) === "example" ? exampleOf(state, examples) : null);
  }

  /** Return the worked examples, a file that is requested once; null if the request fails. */
  #loadExamples() {
    this.loading ??= fetchText("page/worked-examples.json").then((text) => JSON.parse(text).examples, () => {
      this.loading = null;
      return null;
    });
    return this.loading;
  }

  #draw(state, example) {
    const { trace } = this;
    const head = /^\d{1,4}$/.test(state.head) && Number(state.head) < trace.heads ? Number(state.head) : 0;
    const digits = /^(\d|10)$/.test(state.decimals) ? Number(state.decimals) : 4;
    // Without a cell in the address, choose a score of two different words.
    const cell = trace.cell(state.cell) ?? trace.cell("scores:0:1") ?? trace.cell("scores:0:0");
    const derivation = derive(trace, cell, head, digits);
    this.headField.hidden = trace.heads < 2;
    setOptions(this.head, numbered(trace.heads), String(head));
    this.digits.value = String(digits);
    this.panel.show(trace.cellName(cell, head), derivation);
    const query = cell.query ?? (cell.name.endsWith("_weight") ? 0 : cell.row);
    const printed = this.sources.showPrinted(example, trace);
    this.#arrangeCards();
    const cards = [...trace.steps.keys()].map((name) => this.cards.get(name));
    for (const card of cards) card.show({ trace, head, cell, query, digits, printed, parts: derivation.parts });
    for (const card of cards) card.scroll();
    this.exchange.reportDrawn();
  }

  /** Put the cards in the order of the steps. A card is made once, so that it keeps the focus. */
  #arrangeCards() {
    const names = [...this.trace.steps.keys()];
    if (names.join() === this.arranged) return;
    this.arranged = names.join();
    for (const name of names) {
      if (!this.cards.has(name)) this.cards.set(name, new StepCard(name, (cell) => this.#choose(cell)));
    }
    this.grid.replaceChildren(...names.map((name) => this.cards.get(name).element));
  }

  #choose(cell) {
    const { trace } = this;
    // If the output concatenates the heads, each column belongs to one head.
    const concatenated = cell.name === "output" && trace.heads > 1 && !trace.has("output_weight")
      && !/Wo|bo/.test(trace.formula("output"));
    this.page.update({
      cell: cellText(cell),
      ...(concatenated && { head: String(Math.floor(cell.column / trace.width("context"))) }),
    });
  }
}

/** The panel with the derivation of the chosen cell. */
class DerivationPanel {
  /** `onstep(name)` is called to go to the card of a step. */
  constructor(onstep) {
    this.onstep = onstep;
    this.text = h("div", { role: "status", class: "derived" });
    this.sources = h("div", { class: "buttons made-from" });
    this.element = h("section", { class: "derivation", "aria-label": "Derivation of the chosen cell", tabindex: "0" },
      this.text, this.sources);
  }

  show(name, { symbols, lines, note, differs, parts }) {
    const shown = JSON.stringify([name, symbols, lines, note, differs, parts]);
    if (shown === this.shown) return;
    this.shown = shown;
    const explained = note || (lines.length ? "" : "For this step only the formula is shown.");
    this.text.replaceChildren(
      h("p", {}, h("strong", {}, name), " ", h("code", {}, symbols)),
      ...lines.map((line) => h("p", { class: "sum number" }, line)),
      ...(explained ? [h("p", {}, explained)] : []),
      ...(differs ? [h("p", { class: "differs" }, differs)] : []),
    );
    const names = [...new Set(parts.map((part) => part.name))];
    this.sources.replaceChildren(...(names.length ? [h("span", { class: "muted" }, "Computed from")] : []),
      ...names.map((source) => quietButton(about(source).title, () => this.onstep(source), { class: "quiet small" })));
  }
}
