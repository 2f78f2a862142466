/** The view Step by step: every number of attention and how it is computed. */

import { isGiven, ownMark, OwnResult, StepCard } from "./card.js";
import { derive, logitsOf, softmaxOf } from "./derivation.js";
import { StepEditor } from "./editor.js";
import { openingCell, PrintedChecks } from "./printed.js";
import { about, cellText, LETTERS, Trace } from "./trace.js";
import { parseJson, readJson } from "../client.js";
import {
  caseField, choiceField, factList, formElement, h, labeled, listModels, modelAndCase, modelField,
  numbered, optionDetails, quietButton, selectBox, setOptions, textField, viewElement,
} from "../elements.js";
import { Exchange } from "../exchange.js";
import { decimals } from "../text.js";

export const title = "Step by step";
export const defaults = {
  source: "example", example: "1", text: "The bank of the river", model: "", layer: "0", case: "auto",
  numbers: "", head: "0", cell: "", decimals: "4", hide: "",
};

export class View {
  constructor(page) {
    this.page = page;
    this.exchange = new Exchange("polyseme-steps");
    this.sources = new StepSources(page);
    this.panel = new DerivationPanel((name) => this.#goTo(name), (by) => this.#walk(by));
    this.grid = h("div", { class: "step-cards" });
    this.main = h("div", { class: "step-main" }, this.grid);
    this.temperature = new Temperature();
    this.hide = quietButton("Hide results", () => this.page.update({ hide: this.isHidden ? "" : "1" }));
    this.head = selectBox(numbered(1), "0", (head) => this.page.update({ head }));
    this.headField = labeled("Head", this.head);
    this.digits = selectBox(numbered(11), "4", (count) => this.page.update({ decimals: count }));
    this.element = viewElement(title, "Choose a number to see how it is computed: it has a solid frame, its operands a dashed one.",
      this.sources.element, this.exchange,
      h("div", { class: "controls" }, labeled("Decimals", this.digits), this.headField, this.hide),
      this.main, this.sources.checks.element,
      h("details", { class: "letters" }, h("summary", {}, "Letters of the shapes"), factList(LETTERS)),
    );
  }

  async show(state) {
    this.state = state;
    this.sources.show(state);
    const isInvalid = sourceOf(state) === "numbers" && this.sources.editor.invalid;
    if (isInvalid) return this.exchange.clear("A matrix is not valid. Correct it to see the steps.");
    const request = requestOf(state);
    if (!request) return this.exchange.clear("Type a sentence to see its steps.");
    const response = await this.exchange.request("v1/trace", request);
    if (state !== this.state) return;
    this.sources.editor.markErrors(this.exchange.errors);
    if (!response) return;
    if (response !== this.response) {
      Object.assign(this, { response, trace: new Trace(request, response) });
      this.#makeCards(this.trace);
    }
    this.#draw(state, sourceOf(state) === "example" ? exampleOf(state) : null);
  }

  #draw(state, example) {
    const { trace } = this;
    const head = /^\d{1,4}$/.test(state.head) && Number(state.head) < trace.heads ? Number(state.head) : 0;
    const digits = /^(\d|10)$/.test(state.decimals) ? Number(state.decimals) : 4;
    this.isHidden = state.hide === "1";
    // Without a cell in the address, choose the one that the notes compute, else a score of two different words.
    const cell = trace.cell(state.cell) ?? (example && openingCell(example, trace)) ?? trace.cell("scores:0:1") ?? trace.cell("scores:0:0");
    const derivation = derive(trace, cell, head, digits);
    this.cell = cell;
    this.headField.hidden = trace.heads < 2;
    setOptions(this.head, numbered(trace.heads), String(head));
    this.digits.value = String(digits);
    this.hide.textContent = this.isHidden ? "Show results" : "Hide results";
    const isHidden = this.isHidden && !isGiven(trace, cell.name);
    const owner = example ? `example ${state.example}` : sourceOf(state) === "numbers" ? "numbers" : JSON.stringify(trace.request);
    this.panel.show(trace.cellName(cell, head), derivation, { owner, number: trace.number(cell, head), digits, isHidden });
    const names = [...this.cards.keys()], [previous, next] = this.panel.walkers;
    previous.disabled = cell.name === names[0];
    next.disabled = cell.name === names.at(-1);
    const query = cell.query ?? (cell.name.endsWith("_weight") ? 0 : cell.row);
    const printed = this.sources.checks.show(example, trace, this.isHidden);
    const parts = derivation.parts.filter((part) => (part.head ?? head) === head), lit = new Set(parts.map(cellText));
    const view = { owner, head, cell, query, digits, printed, isHidden: this.isHidden, parts, lit };
    for (const card of this.cards.values()) card.show(view);
    for (const card of this.cards.values()) card.scroll();
    this.temperature.show(trace, Math.min(query, trace.words.length - 1), head, this.isHidden);
    this.#placePanel(cell.name, state.cell);
  }

  /** Put the derivation beside the cards, or in a narrow window after the card of the chosen cell; scroll to a linked cell. */
  #placePanel(name, linked) {
    const card = this.cards.get(name).element, isNarrow = matchMedia("(max-width: 64rem)").matches;
    if (isNarrow && this.panel.element.previousElementSibling !== card) card.after(this.panel.element);
    if (!isNarrow && this.panel.element.parentElement !== this.main) this.main.append(this.panel.element);
    if (linked && this.linked !== this.response) card.scrollIntoView({ block: "center" });
    this.linked = this.response;
  }

  /** Scroll to the card of a step, and focus its heading. */
  #goTo(name) {
    const { heading, element } = this.cards.get(name);
    element.scrollIntoView({ block: "center" });
    heading.focus({ preventScroll: true });
  }

  /** Choose a cell of the next step, or of the previous one, in the same row. */
  #walk(by) {
    const names = [...this.cards.keys()], { name, query, row } = this.cell, next = names[names.indexOf(name) + by];
    this.#choose(this.trace.firstCell(next, query ?? row));
    this.cards.get(next).element.scrollIntoView({ block: "center" });
  }

  /** Make a card for each step of a trace. */
  #makeCards(trace) {
    this.cards = new Map([...trace.steps.keys()].map((name) => [name, new StepCard(name, trace, (cell) => this.#choose(cell))]));
    this.grid.replaceChildren(...[...this.cards.values()].map(({ element }) => element));
    this.cards.get("weights").element.append(this.temperature.element);
  }

  #choose(cell) {
    const { trace } = this;
    // Each column of the concatenation belongs to one head.
    const isJoined = cell.name === "concatenation";
    this.page.update({
      cell: cellText(cell),
      ...(isJoined && { head: String(Math.floor(cell.column / trace.width("context"))) }),
    });
  }
}

/** What scaling does: the weights of one row at another temperature. */
class Temperature {
  constructor() {
    this.slider = h("input", { type: "range", min: "0.1", max: "10", step: "0.1", value: "1", oninput: () => this.#draw() });
    this.text = h("output", {});
    this.element = h("details", {}, h("summary", {}, "What scaling does"),
      labeled("Temperature T: the scores are divided by T", this.slider), h("p", { class: "status" }, this.text));
  }

  /** Show the weights of row `row`; the scores before scaling are divided. */
  show(trace, row, head, isHidden) {
    Object.assign(this, { trace, row, head });
    this.element.hidden = isHidden;
    this.#draw();
  }

  #draw() {
    const { trace, row, head } = this, temperature = Number(this.slider.value);
    const { terms, mask, logits } = logitsOf(trace, row, head);
    const scaled = trace.array(terms[0].name, head)[row], scores = trace.array("scores", head)[row];
    const weights = softmaxOf(logits.map((logit, j) => (mask[j] ? logit - scaled[j] + scores[j] / temperature : -Infinity)));
    this.text.textContent = `T = ${decimals(temperature, 1)}, row ${trace.words[row]}: ${
      weights.map((weight, j) => `${trace.words[j]} ${decimals(weight, 2)}`).join(", ")}. Scaling has T = √k = ${
      decimals(Math.sqrt(trace.width("queries", head)), 2)}. ${terms.length > 1
      ? "The biases are not divided: the larger T, the more they alone decide."
      : "The smaller T, the more weight the largest score gets; the larger T, the more alike all weights are."}`;
  }
}

/** The panel with the derivation of the chosen cell. */
class DerivationPanel {
  /** `onstep(name)` is called to go to the card of a step, `onwalk(by)` to go to the next or the previous step. */
  constructor(onstep, onwalk) {
    this.onstep = onstep;
    this.own = new OwnResult("My result: this number", () => this.#check());
    this.mark = h("span", {});
    this.text = h("div", { role: "status", class: "derived" });
    this.sources = h("div", { class: "buttons made-from" });
    this.walkers = [-1, 1].map((by) => quietButton(by < 0 ? "‹ Previous step" : "Next step ›", () => onwalk(by), { class: "quiet small" }));
    this.element = h("section", { class: "derivation", "aria-label": "Derivation of the chosen cell", tabindex: "0" },
      this.text, this.sources,
      h("div", { class: "buttons" }, this.walkers),
      this.own.element, this.mark);
  }

  /** Show a derivation; `number` is the chosen number, which is not shown if it `isHidden`. */
  show(name, { symbols, lines: all, note, parts }, { owner, number, digits, isHidden }) {
    const lines = isHidden ? [] : all;
    const shown = JSON.stringify([owner, name, number, symbols, lines, note, parts, digits, isHidden]);
    if (shown === this.shown) return;
    this.own.restore(`${owner} ${name}`);
    Object.assign(this, { shown, number, decimals: digits });
    if (isHidden) this.own.element.open = true;
    this.#check();
    const explained = isHidden ? "Compute this number, and check it under “My result”." : note;
    this.text.replaceChildren(
      h("p", {}, h("strong", {}, name), " ", h("code", {}, symbols)),
      ...lines.map((line) => h("p", { class: "sum number" }, line)),
      ...(lines.length ? [h("p", { class: "muted" }, "Numbers are rounded for display; the service computes with all digits.")] : []),
      ...(explained ? [h("p", {}, explained)] : []),
    );
    const names = [...new Set(parts.map((part) => part.name))];
    this.sources.replaceChildren(...(names.length ? [h("span", { class: "muted" }, "Computed from")] : []),
      ...names.map((source) => quietButton(about(source).title, () => this.onstep(source), { class: "quiet small" })));
  }

  #check() {
    const [own] = this.own.check({ rows: [[this.number]], rowNames: [""], columnNames: [""] }, this.decimals).flat();
    this.mark.replaceChildren(own ? ownMark(own) : "");
  }
}

const { examples: EXAMPLES } = await readJson("worked-examples.json");

const SOURCES = { example: "Worked example", sentence: "A sentence", numbers: "Own numbers" };

class StepSources {
  constructor(page) {
    this.page = page;
    this.editor = new StepEditor((request) => page.update(request ? { numbers: JSON.stringify(request) } : {}));
    this.checks = new PrintedChecks();
    this.panels = { example: this.#example(), sentence: this.#sentence(), numbers: this.editor.element };
    this.buttons = Object.fromEntries(Object.entries(SOURCES).map(([source, name]) =>
      [source, quietButton(name, () => page.update({ source }, { push: true }))]));
    this.element = h("div", { class: "card sources" },
      h("div", { role: "group", "aria-label": "Source of the numbers", class: "buttons" }, Object.values(this.buttons)),
      Object.values(this.panels));
  }

  #example() {
    const options = EXAMPLES.map(({ name }, i) => [String(i + 1), `${i + 1}. ${name[0].toUpperCase()}${name.slice(1)}`]);
    this.example = selectBox(options, "1", (example) => this.page.update({ example, cell: "" }, { push: true }));
    const edit = quietButton("Edit these numbers", () =>
      this.page.update({ source: "numbers", numbers: JSON.stringify(this.request) }, { push: true }));
    return h("div", {}, h("div", { class: "controls" }, labeled("Example", this.example), edit), this.checks.summary);
  }

  #sentence() {
    this.layer = choiceField(this.page, "layer", "Layer", numbered(1));
    const text = textField("text", "Sentence", { maxlength: "4000" });
    // Another model may have fewer layers.
    const options = optionDetails(caseField(this.page), modelField({ update: (changes) => this.page.update({ ...changes, layer: "0" }) }));
    this.fields = [text, options];
    return h("div", {}, formElement("controls", () => this.page.update({ text: text.input.value }, { push: true }),
      text.element, this.layer.element, h("button", {}, "Show the steps"), options.element));
  }

  /** Set the controls. */
  show(state) {
    const source = sourceOf(state), example = exampleOf(state);
    for (const [name, button] of Object.entries(this.buttons)) {
      button.setAttribute("aria-pressed", String(name === source));
      this.panels[name].hidden = name !== source;
    }
    this.request = example.request;
    this.example.value = String(EXAMPLES.indexOf(example) + 1);
    for (const field of this.fields) field.show(state);
    this.#showLayers(state);
    if (source === "numbers") this.editor.show(numbersOf(state));
  }

  async #showLayers({ model, layer }) {
    const models = await listModels();
    const { layers = 1 } = models.find(({ id, default: isDefault }) => (model ? id === model : isDefault)) ?? {};
    this.layer.show({ layer: layerOf(layer) }, numbered(layers));
  }
}

/** Return the example of a state, the first by default. Examples are counted from 1. */
const exampleOf = (state) => EXAMPLES[Number(state.example) - 1] ?? EXAMPLES[0];

/** Return the source of a state: `example`, `sentence` or `numbers`. */
const sourceOf = ({ source }) => (Object.hasOwn(SOURCES, source) ? source : "example");

const layerOf = (layer) => (/^\d{1,3}$/.test(layer) ? String(Number(layer)) : "0");

/** Return the body of `POST v1/trace` for a state, or null if the sentence is empty. */
function requestOf(state) {
  const source = sourceOf(state);
  if (source === "example") return exampleOf(state).request;
  if (source === "numbers") return numbersOf(state);
  if (!state.text.trim()) return null;
  return { text: state.text, layer: Number(layerOf(state.layer)), ...modelAndCase(state) };
}

/** Return the request with the reader's own numbers, or the request of the example if the editor cannot show it. */
function numbersOf(state) {
  const request = parseJson(state.numbers);
  const { tokens, embeddings, queries, keys, values, weights } = request ?? {};
  const matrices = [...(embeddings ? [embeddings] : [queries, keys, values]), ...Object.values(weights ?? {})];
  // The service checks the numbers and the shapes.
  const isShown = matrices.every((rows) => Array.isArray(rows) && rows.every(Array.isArray));
  return Array.isArray(tokens) && isShown ? request : exampleOf(state).request;
}
