/** The source of the numbers (a worked example, a sentence or the reader's own numbers), and the request for them. */

import { StepEditor } from "./editor.js";
import { PrintedChecks } from "./printed.js";
import {
  caseField, choiceField, h, labeled, listModels, modelAndCase, modelField, numbered, optionDetails, quietButton, selectBox, setOptions,
} from "../elements.js";

const SOURCES = { example: "Worked example", sentence: "A sentence", numbers: "Own numbers" };

export class StepSources {
  /** `oninvalid()` is called when the reader's own numbers are not valid. */
  constructor(page, oninvalid) {
    this.page = page;
    this.editor = new StepEditor((request) => {
      if (request) page.update({ numbers: JSON.stringify(request) });
      else oninvalid();
    });
    this.checks = new PrintedChecks();
    this.panels = { example: this.#example(), sentence: this.#sentence(), numbers: this.editor.element };
    this.buttons = Object.fromEntries(Object.entries(SOURCES).map(([source, title]) =>
      [source, quietButton(title, () => page.update({ source }, { push: true }))]));
    this.element = h("div", { class: "card sources" },
      h("div", { role: "group", "aria-label": "Source of the numbers", class: "buttons" }, Object.values(this.buttons)),
      Object.values(this.panels));
  }

  #example() {
    this.example = selectBox([], "", (example) => this.page.update({ example, cell: "" }, { push: true }));
    const edit = quietButton("Edit these numbers", () =>
      this.page.update({ source: "numbers", numbers: JSON.stringify(this.request) }, { push: true }));
    return h("div", {}, h("div", { class: "controls" }, labeled("Example", this.example), edit), this.checks.summary);
  }

  #sentence() {
    this.text = h("input", { type: "text", dir: "auto", autocomplete: "off", maxlength: "4000" });
    this.layer = choiceField(this.page, "layer", "Layer", numbered(1));
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const submit = (event) => {
      event.preventDefault();
      this.page.update({ text: this.text.value }, { push: true });
    };
    return h("div", {}, h("form", { class: "controls", onsubmit: submit },
      h("div", { class: "grow" }, labeled("Sentence", this.text)), this.layer.element,
      h("button", {}, "Show the steps"),
      optionDetails(this.cases.element, this.model.element)));
  }

  /** Set the controls. */
  show(state, examples) {
    const source = sourceOf(state);
    for (const [name, button] of Object.entries(this.buttons)) {
      button.setAttribute("aria-pressed", String(name === source));
      this.panels[name].hidden = name !== source;
    }
    const example = exampleOf(state, examples);
    this.request = example.request;
    setOptions(this.example, examples.map(({ name }, i) =>
      [String(i + 1), `${i + 1}. ${name[0].toUpperCase()}${name.slice(1)}`]), String(examples.indexOf(example) + 1));
    // Do not overwrite what the reader is typing unless the address has another sentence.
    if (this.shown !== state.text) this.text.value = state.text;
    this.shown = state.text;
    this.cases.show(state.case);
    this.model.show(state.model);
    this.#showLayers(state);
    if (source === "numbers") this.editor.show(numbersOf(state, examples));
  }

  async #showLayers({ model, layer }) {
    const models = await listModels();
    const { layers = 1 } = models.find(({ id, default: isDefault }) => (model ? id === model : isDefault)) ?? {};
    this.layer.show(layerOf(layer), numbered(layers));
  }

}

/** Return the example of a state, the first by default. Examples are counted from 1. */
export function exampleOf(state, examples) {
  return examples[Number(state.example) - 1] ?? examples[0];
}

/** Return the source of a state: `example`, `sentence` or `numbers`. */
export const sourceOf = ({ source }) => (Object.hasOwn(SOURCES, source) ? source : "example");

const layerOf = (layer) => (/^\d{1,3}$/.test(layer) ? String(Number(layer)) : "0");

/** Return the body of `POST v1/trace` for a state, or null if the sentence is empty. */
export function requestOf(state, examples) {
  const source = sourceOf(state);
  if (source === "example") return exampleOf(state, examples).request;
  if (source === "numbers") return numbersOf(state, examples);
  if (!state.text.trim()) return null;
  return { text: state.text, layer: Number(layerOf(state.layer)), ...modelAndCase(state) };
}

/** Return the request with the reader's own numbers, or the request of the example if the editor cannot show it. */
function numbersOf(state, examples) {
  try {
    const request = JSON.parse(state.numbers);
    const { tokens, embeddings, queries, keys, values, weights = {} } = request;
    const matrices = [...(embeddings ? [embeddings] : [queries, keys, values]), ...Object.values(weights)];
    // The service checks the numbers and the shapes.
    const shown = matrices.every((rows) => Array.isArray(rows) && rows.every(Array.isArray));
    if (Array.isArray(tokens) && shown) return request;
  } catch {
    // Not JSON, or not an object.
  }
  return exampleOf(state, examples).request;
}
