/** The view Step by step: every number of attention and how it is computed. */

import { StepCard } from "./card.js";
import { derive, isPart } from "./derivation.js";
import { derivationLines } from "./derivation_text.js";
import { matrixFlow } from "./flow.js";
import { exampleOf, digitsOf, requestOf, sourceOf, StepSources } from "./sources.js";
import { about, cellName, cellText, LETTERS, Trace } from "./trace.js";
import { fetchText } from "../client.js";
import { theme } from "../colors.js";
import { h, labeled, selectBox, setOptions } from "../elements.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";

const DIGITS = Array.from({ length: 11 }, (_, i) => [String(i), String(i)]);
/** The steps that the figure shows. */
const FLOW = ["embeddings", "queries", "keys", "values", "scores", "scaled_scores", "weights", "context", "output", "contextual"];
const NOT_A_NUMBER = "A cell is not a number. Correct it to see the steps.";

/** Build the view. It is built once. */
export const build = (page) => new StepsView(page);

/** An exchange that also marks the matrices named in an error. */
class TraceExchange extends Exchange {
  markErrors = () => {};

  showError(error) {
    super.showError(error);
    this.markErrors(error.errors);
  }
}

class StepsView {
  constructor(page) {
    this.page = page;
    this.turn = 0;
    this.cards = new Map();
    this.results = h("div", { class: "results" });
    this.exchange = new TraceExchange("polyseme-steps", this.results);
    this.sources = new StepSources(page, (sentence) => this.exchange.clear(sentence ?? NOT_A_NUMBER));
    this.exchange.markErrors = (errors) => this.sources.editor.markErrors(errors);
    this.figure = new Figure("polyseme-steps", "Matrices");
    this.figure.caption.textContent = "The chosen cell has a solid frame; the cells that it is computed from have a dashed frame.";
    this.panel = new DerivationPanel((name) => {
      const { heading, element } = this.cards.get(name);
      element.scrollIntoView({ block: "center" });
      heading.focus({ preventScroll: true });
    });
    this.grid = h("div", { class: "step-cards" });
    this.head = selectBox([["0", "0"]], "0", (head) => this.page.update({ head }));
    this.headField = labeled("Head", this.head);
    this.digits = selectBox(DIGITS, "4", (decimals) => this.page.update({ decimals }));
    this.results.append(
      h("div", { class: "controls step-tools" }, labeled("Decimals", this.digits), this.headField),
      this.figure.element, this.panel.element, this.grid,
      h("details", { class: "letters" }, h("summary", {}, "Letters of the shapes"),
        h("dl", { class: "facts" }, LETTERS.flatMap(([letter, meaning]) => [h("dt", {}, letter), h("dd", {}, meaning)]))),
      this.exchange.source,
    );
    this.element = h(
      "section",
      { "aria-label": "Step by step", class: "steps-view" },
      h("div", { class: "intro" }, h("h2", {}, "Step by step"),
        h("p", {}, "Every number of attention, from embeddings to context. Choose a number to see which numbers it is",
          " computed from, with the arithmetic written out.")),
      this.sources.element,
      this.exchange.problem,
      this.results,
    );
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
    if (sourceOf(state) === "numbers" && this.sources.editor.invalid) return this.exchange.clear(NOT_A_NUMBER);
    const request = requestOf(state, examples);
    if (!request) return this.exchange.clear("Type a sentence to see its steps.");
    const response = await this.exchange.request("v1/trace", request);
    if (turn !== this.turn || !response) return;
    this.sources.editor.clearErrors();
    if (response !== this.response) Object.assign(this, { response, trace: new Trace(request, response) });
    this.#draw(state, exampleOf(state, examples));
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
    const digits = digitsOf(state);
    // Without a cell in the address, choose a score of two different words.
    const cell = trace.cell(state.cell) ?? trace.cell("scores:0:1") ?? trace.cell("scores:0:0");
    const derivation = derive(trace, cell, head);
    const printed = this.sources.showPrinted(sourceOf(state) === "example" ? example : null, trace);
    this.headField.hidden = trace.heads < 2;
    setOptions(this.head, Array.from({ length: trace.heads }, (_, i) => [String(i), String(i)]), String(head));
    this.digits.value = String(digits);
    this.panel.show(trace, cell, derivation, head, digits);
    const query = cell.query ?? (cell.name.endsWith("_weight") ? 0 : cell.row);
    const view = {
      trace, head, cell, query, digits, printed, parts: derivation.parts, theme: theme(),
      tableWidth: (whole) => this.#tableWidth(whole),
    };
    this.#arrangeCards();
    for (const name of trace.steps.keys()) this.cards.get(name).show(view);
    this.#drawFlow(view);
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
    const step = this.trace.steps.get(cell.name);
    // If the output concatenates the heads, each column belongs to one head.
    const concatenated = cell.name === "output" && this.trace.heads > 1 && !this.trace.has("output_weight")
      && !/Wo|bo/.test(step.formula);
    this.page.update({
      cell: cellText(cell),
      ...(concatenated && { head: String(Math.floor(cell.column / this.trace.width("context"))) }),
    });
  }

  /** Return the width for a table in pixels, in a card of the whole width or in a column of cards. */
  #tableWidth(whole) {
    const full = this.grid.clientWidth - 36;
    const columns = Math.max(1, Math.floor((this.grid.clientWidth + 16) / 400));
    return whole || columns === 1 ? full : (this.grid.clientWidth - 16 * (columns - 1)) / columns - 36;
  }

  #drawFlow({ trace, head, cell, parts }) {
    const matrices = FLOW.filter((name) => trace.has(name)).map((name) => {
      const { rows, rowNames, columnNames, words } = trace.matrix(name, head, 0);
      const { left, top } = this.cards.get(name).window();
      return {
        name, rows, rowNames, columnNames, words, left, top, symbol: about(name).symbol,
        shape: [rows.length, rows[0].length], weights: name === "weights",
        isChosen: (row, column) => cell.name === name && cell.row === row && cell.column === column,
        isLit: (row, column) => isPart(parts, { name, row, column }, head),
      };
    });
    const [first, last] = [matrices[0], matrices.at(-1)].map(({ name }) => about(name).title.toLowerCase());
    this.figure.show(matrixFlow(matrices, {
      width: this.figure.width(), name: `Matrices from ${first} to ${last}, with arrows`,
    }));
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

  show(trace, cell, derivation, head, digits) {
    const key = [cellText(cell), head, digits].join();
    if (key === this.key && trace === this.trace) return;
    Object.assign(this, { key, trace });
    const lines = derivationLines(derivation, digits);
    const { symbols, note, differs, given, computed } = derivation;
    const where = trace.headed(cell.name) ? `, head ${head}` : "";
    this.text.replaceChildren(
      h("p", { class: "what" }, h("strong", {}, `${cellName(trace, cell)}${where}`), " ", h("code", {}, symbols)),
      ...lines.map((line) => h("p", { class: "sum number" }, line)),
      ...(note ? [h("p", {}, note)] : []),
      ...(!lines.length && !note ? [h("p", {}, "For this step only the formula is shown.")] : []),
      ...(differs
        ? [h("p", { class: "differs" }, `The service returned ${given}, but this arithmetic gives ${computed}.`)]
        : []),
    );
    const names = [...new Set(derivation.parts.map(({ name }) => name))];
    this.sources.replaceChildren(...(names.length ? [h("span", { class: "muted" }, "Computed from")] : []),
      ...names.map((name) => h("button", { type: "button", class: "quiet small", onclick: () => this.onstep(name) },
        about(name).title)));
  }
}
