/** The arithmetic of attention, step by step. */

import { theme } from "../frame/colours.js";
import { derive, isPart } from "./derivation.js";
import { choice, h, labelled, offer } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { Figure } from "../frame/figure.js";
import { matrixFlow } from "../figures/matrix_flow.js";
import { ask } from "../frame/service.js";
import { StepCard } from "./card.js";
import { DerivationPanel } from "./derivation_panel.js";
import { about, LETTERS } from "./names.js";
import { printedNumbers, printedSentence } from "./printed.js";
import { exampleOf, placesOf, requestOf, sourceOf } from "./request.js";
import { StepSources } from "./sources.js";
import { cellText, Trace } from "./trace.js";

const PLACES = Array.from({ length: 11 }, (_, i) => [String(i), String(i)]);
const FLOW = ["embeddings", "queries", "keys", "values", "scores", "scaled_scores", "weights", "context", "output", "contextual"];

const BROKEN = "A cell is no number yet: mend it to see the steps.";

/** Refusals mark the matrices that they name. */
class TraceExchange extends Exchange {
  onrefuse = () => {};

  refuse(error) {
    super.refuse(error);
    this.onrefuse(error.errors);
  }
}

class Steps {
  constructor(page) {
    this.page = page;
    this.cards = new Map();
    this.results = h("div", { class: "results" });
    this.exchange = new TraceExchange("polyseme-steps", this.results);
    this.sources = new StepSources(page, (sentence) => this.exchange.rest(sentence ?? BROKEN));
    this.exchange.onrefuse = (errors) => this.sources.editor.refused(errors);
    this.figure = new Figure("polyseme-steps", "The way of the numbers");
    this.figure.caption.textContent = "The chosen cell has a whole frame, the cells that it is made of a dashed one.";
    this.panel = new DerivationPanel((name) => this.#goTo(name));
    this.grid = h("div", { class: "step-cards" });
    this.results.append(this.#toolbar(), this.figure.element, this.panel.element, this.grid, letters(),
      this.exchange.source);
    this.element = h(
      "section",
      { "aria-label": "Step by step", class: "steps-view" },
      h("div", { class: "intro" }, h("h2", {}, "Step by step"),
        h("p", {}, "Every number of attention, from embeddings to context. Choose a number to see which others it",
          " is made of, and the arithmetic written out.")),
      this.sources.element,
      this.exchange.problem,
      this.results,
    );
  }

  #toolbar() {
    this.head = choice([["0", "0"]], "0", (head) => this.page.go({ head }));
    this.headField = labelled("Head", this.head);
    this.places = choice(PLACES, "4", (decimals) => this.page.go({ decimals }));
    return h("div", { class: "controls step-tools" }, labelled("Decimals", this.places), this.headField);
  }

  async show(state) {
    const turn = (this.turn ?? 0) + 1;
    this.turn = turn;
    // Until they are there, whoever waits for the answer waits for them.
    if (!this.asked) this.results.setAttribute("aria-busy", "true");
    const examples = await this.#examples();
    if (turn !== this.turn) return;
    this.results.removeAttribute("aria-busy");
    if (!examples) return this.exchange.rest("The worked examples did not come. Load the page again.");
    this.sources.show(state, examples);
    if (sourceOf(state) === "numbers" && this.sources.editor.broken) return this.exchange.rest(BROKEN);
    const request = requestOf(state, examples);
    if (!request) return this.exchange.rest("Type a sentence to see its steps.");
    const answer = await this.exchange.ask("v1/trace", request);
    if (turn !== this.turn || !answer) return;
    this.sources.editor.accepted();
    if (answer !== this.answer) Object.assign(this, { answer, trace: new Trace(request, answer) });
    this.#draw(state, exampleOf(state, examples));
  }

  /** The examples are a file of the page; asked for once. */
  #examples() {
    this.asked ??= ask("page/worked-examples.json").then((text) => JSON.parse(text).examples, () => {
      this.asked = null;
      return null;
    });
    return this.asked;
  }

  #draw(state, example) {
    const { trace } = this;
    const head = /^\d{1,4}$/.test(state.head) && Number(state.head) < trace.heads ? Number(state.head) : 0;
    const places = placesOf(state), cell = cellOf(trace, state.cell);
    const derivation = derive(trace, cell, head);
    const isExample = sourceOf(state) === "example";
    const printed = isExample ? printedNumbers(example.printed, trace) : [];
    this.sources.printed.textContent = isExample ? printedSentence(printed, trace) : "";
    this.headField.hidden = trace.heads < 2;
    offer(this.head, Array.from({ length: trace.heads }, (_, i) => [String(i), String(i)]), String(head));
    this.places.value = String(places);
    this.panel.show(trace, cell, derivation, head, places);
    const looking = cell.looking ?? (cell.name.endsWith("_weight") ? 0 : cell.row);
    const view = {
      trace, head, cell, looking, places, printed, parts: derivation.parts, theme: theme(),
      room: (whole) => this.#room(whole),
    };
    this.#arrange();
    for (const name of trace.steps.keys()) this.cards.get(name).show(view);
    this.#flow(view);
    this.exchange.drawn();
  }

  /** A card for each step there is, in order; cards stay, so that focus does. */
  #arrange() {
    const names = [...this.trace.steps.keys()];
    if (names.join() === this.arranged) return;
    this.arranged = names.join();
    for (const name of names) {
      if (!this.cards.has(name)) this.cards.set(name, new StepCard(name, (cell) => this.#pick(cell)));
    }
    this.grid.replaceChildren(...names.map((name) => this.cards.get(name).element));
  }

  #pick(cell) {
    const step = this.trace.steps.get(cell.name);
    // A number of the output belongs to one head where the heads stand side by side.
    const beside = cell.name === "output" && this.trace.heads > 1 && !this.trace.has("output_weight")
      && step.formula.endsWith("side by side");
    this.page.go({
      cell: cellText(cell),
      ...(beside && { head: String(Math.floor(cell.column / this.trace.width("context"))) }),
    });
  }

  #goTo(name) {
    const { heading, element } = this.cards.get(name);
    element.scrollIntoView({ block: "center" });
    heading.focus({ preventScroll: true });
  }

  /** Pixels for a table in a card: of the whole width, or of a column of cards. */
  #room(whole) {
    const all = this.grid.clientWidth - 36;
    const columns = Math.max(1, Math.floor((this.grid.clientWidth + 16) / 400));
    return whole || columns === 1 ? all : (this.grid.clientWidth - 16 * (columns - 1)) / columns - 36;
  }

  #flow({ trace, head, cell, parts }) {
    const matrices = FLOW.filter((name) => trace.has(name)).map((name) => {
      const { rows, rowNames, columnNames, words } = trace.matrix(name, head, 0);
      const { left, top } = this.cards.get(name).part();
      return {
        name, rows, rowNames, columnNames, words, left, top, symbol: about(name).symbol,
        shape: [rows.length, rows[0].length], weights: name === "weights",
        isChosen: (row, column) => cell.name === name && cell.row === row && cell.column === column,
        isLit: (row, column) => isPart(parts, { name, row, column }, head),
      };
    });
    this.figure.show(matrixFlow(matrices, {
      width: this.figure.width(),
      name: `Matrices from ${about(matrices[0].name).title.toLowerCase()} to ${about(matrices.at(-1).name).title.toLowerCase()}, with arrows`,
    }));
  }
}

/** The cell of the address, else a score, which is the first thing to understand. */
function cellOf(trace, text) {
  return trace.cell(text) ?? trace.cell("scores:0:1") ?? trace.cell("scores:0:0");
}

function letters() {
  return h("details", { class: "letters" }, h("summary", {}, "The letters of shapes"),
    h("dl", { class: "facts" }, LETTERS.flatMap(([letter, what]) => [h("dt", {}, letter), h("dd", {}, what)])));
}

/** The view, made once. */
export const build = (page) => new Steps(page);
