/** Where the numbers come from: an example, a sentence, or the reader's own. */

import { caseField } from "../frame/case_field.js";
import { choice, freshId, h, labelled, offer } from "../frame/elements.js";
import { listed } from "../frame/models.js";
import { modelField } from "../frame/model_field.js";
import { StepEditor } from "./editor.js";
import { exampleOf, numbersOf, sourceOf } from "./request.js";

const SOURCES = [["example", "Worked example"], ["sentence", "A sentence"], ["numbers", "Own numbers"]];

export class StepSources {
  /** `onbroken(sentence)` is called while the reader's own numbers cannot be asked about. */
  constructor(page, onbroken) {
    this.page = page;
    this.tabs = h("div", { role: "tablist", "aria-label": "Where the numbers come from", class: "buttons tabs" });
    this.panels = { example: this.#example(), sentence: this.#sentence(), numbers: this.#numbers(onbroken) };
    for (const [source, title] of SOURCES) this.tabs.append(this.#tab(source, title));
    this.tabs.addEventListener("keydown", (event) => this.#arrow(event));
    this.element = h("div", { class: "card sources" }, this.tabs, Object.values(this.panels));
  }

  #tab(source, title) {
    const panel = this.panels[source], id = freshId("tab");
    panel.id = freshId("panel");
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", id);
    return h("button", {
      type: "button", class: "quiet", role: "tab", id, "aria-controls": panel.id, "data-source": source,
      onclick: () => this.page.go({ source }, { push: true }),
    }, title);
  }

  /** Arrows, Home and End go along the tabs, as the pattern of ARIA has it. */
  #arrow(event) {
    const tabs = [...this.tabs.children], at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  }

  #example() {
    this.example = choice([], "", (example) => this.page.go({ example, cell: "" }, { push: true }));
    this.printed = h("p", { class: "printed-sum" });
    const edit = h("button", {
      type: "button", class: "quiet",
      onclick: () => this.page.go({
        source: "numbers", numbers: JSON.stringify(this.request),
      }, { push: true }),
    }, "Edit these numbers");
    return h("div", {}, h("div", { class: "controls" }, labelled("Example", this.example), edit), this.printed);
  }

  #sentence() {
    this.text = h("input", { type: "text", dir: "auto", autocomplete: "off", maxlength: "4000" });
    this.layer = choice([["0", "0"]], "0", (layer) => this.page.go({ layer }));
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const send = (event) => {
      event.preventDefault();
      this.page.go({ text: this.text.value }, { push: true });
    };
    return h("div", {}, h("form", { class: "controls", onsubmit: send },
      h("div", { class: "grow" }, labelled("Sentence", this.text)), labelled("Layer", this.layer),
      this.cases.element, this.model.element, h("button", {}, "Show the steps")));
  }

  #numbers(onbroken) {
    this.editor = new StepEditor((request, sentence) => {
      if (!request) return onbroken(sentence);
      this.page.go({ numbers: JSON.stringify(request) });
    });
    return h("div", {}, this.editor.element);
  }

  /** Set the controls. */
  show(state, examples) {
    const source = sourceOf(state);
    for (const tab of this.tabs.children) {
      const own = tab.dataset.source === source;
      tab.setAttribute("aria-selected", String(own));
      tab.tabIndex = own ? 0 : -1;
      this.panels[tab.dataset.source].hidden = !own;
    }
    const example = exampleOf(state, examples);
    this.request = example.request;
    offer(this.example, examples.map(({ name }, i) =>
      [String(i + 1), `${i + 1}. ${name[0].toUpperCase()}${name.slice(1)}`]), String(examples.indexOf(example) + 1));
    // What is being typed stays until another sentence is shown.
    if (this.sentence !== state.text) this.text.value = state.text;
    this.sentence = state.text;
    this.cases.show(state.case);
    this.model.show(state.model);
    this.#layers(state);
    if (source === "numbers") this.editor.show(numbersOf(state, examples));
  }

  async #layers({ model, layer }) {
    const models = await listed();
    const one = models.find(({ id, default: first }) => (model ? id === model : first));
    const layers = Array.from({ length: one?.layers ?? 1 }, (_, i) => [String(i), String(i)]);
    const wanted = /^\d{1,3}$/.test(layer) ? String(Number(layer)) : "0";
    // A number of the address that is not there stays to be seen: the service says what is wrong.
    if (!layers.some(([number]) => number === wanted)) layers.push([wanted, wanted]);
    offer(this.layer, layers, wanted);
  }
}
