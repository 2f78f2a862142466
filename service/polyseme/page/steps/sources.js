/** The source of the numbers (a worked example, a sentence or the reader's own numbers), and the request for them. */

import { StepEditor } from "./editor.js";
import { PrintedChecks } from "./printed.js";
import { parseJson, readJson } from "../client.js";
import {
  caseField, choiceField, formElement, h, labeled, listModels, modelAndCase, modelField, numbered, optionDetails, quietButton, selectBox, textField,
} from "../elements.js";

const { examples: EXAMPLES } = await readJson("worked-examples.json");

const SOURCES = { example: "Worked example", sentence: "A sentence", numbers: "Own numbers" };

export class StepSources {
  constructor(page) {
    this.page = page;
    this.editor = new StepEditor((request) => page.update(request ? { numbers: JSON.stringify(request) } : {}));
    this.checks = new PrintedChecks();
    this.panels = { example: this.#example(), sentence: this.#sentence(), numbers: this.editor.element };
    this.buttons = Object.fromEntries(Object.entries(SOURCES).map(([source, title]) =>
      [source, quietButton(title, () => page.update({ source }, { push: true }))]));
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
export const exampleOf = (state) => EXAMPLES[Number(state.example) - 1] ?? EXAMPLES[0];

/** Return the source of a state: `example`, `sentence` or `numbers`. */
export const sourceOf = ({ source }) => (Object.hasOwn(SOURCES, source) ? source : "example");

const layerOf = (layer) => (/^\d{1,3}$/.test(layer) ? String(Number(layer)) : "0");

/** Return the body of `POST v1/trace` for a state, or null if the sentence is empty. */
export function requestOf(state) {
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
