/** The source of the numbers (a worked example, a sentence or the reader's own numbers), and the request for them. */

import { StepEditor } from "./editor.js";
import { MAX_SIZE } from "./matrix_field.js";
import { about } from "./trace.js";
import {
  caseField, h, labeled, listModels, modelAndCase, modelField, selectBox, setOptions, uniqueId,
} from "../elements.js";

const SOURCES = [["example", "Worked example"], ["sentence", "A sentence"], ["numbers", "Own numbers"]];

export class StepSources {
  /** `oninvalid(message)` is called when the reader's own numbers are not valid; `message` may be undefined. */
  constructor(page, oninvalid) {
    this.page = page;
    this.tabs = h("div", { role: "tablist", "aria-label": "Source of the numbers", class: "buttons tabs" });
    this.editor = new StepEditor((request, message) => {
      if (!request) return oninvalid(message);
      this.page.update({ numbers: JSON.stringify(request) });
    });
    this.panels = { example: this.#example(), sentence: this.#sentence(), numbers: h("div", {}, this.editor.element) };
    for (const [source, title] of SOURCES) this.tabs.append(this.#tab(source, title));
    this.tabs.addEventListener("keydown", (event) => {
      const tabs = [...this.tabs.children], at = tabs.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      const tab = tabs[(to + tabs.length) % tabs.length];
      tab.focus();
      tab.click();
    });
    this.element = h("div", { class: "card sources" }, this.tabs, Object.values(this.panels));
  }

  #tab(source, title) {
    const panel = this.panels[source], id = uniqueId("tab");
    panel.id = uniqueId("panel");
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", id);
    return h("button", {
      type: "button", class: "quiet", role: "tab", id, "aria-controls": panel.id, "data-source": source,
      onclick: () => this.page.update({ source }, { push: true }),
    }, title);
  }

  #example() {
    this.example = selectBox([], "", (example) => this.page.update({ example, cell: "" }, { push: true }));
    this.printed = h("p", { class: "printed-sum" });
    const edit = h("button", {
      type: "button", class: "quiet",
      onclick: () => this.page.update({
        source: "numbers", numbers: JSON.stringify(this.request),
      }, { push: true }),
    }, "Edit these numbers");
    return h("div", {}, h("div", { class: "controls" }, labeled("Example", this.example), edit), this.printed);
  }

  #sentence() {
    this.text = h("input", { type: "text", dir: "auto", autocomplete: "off", maxlength: "4000" });
    this.layer = selectBox([["0", "0"]], "0", (layer) => this.page.update({ layer }));
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const submit = (event) => {
      event.preventDefault();
      this.page.update({ text: this.text.value }, { push: true });
    };
    return h("div", {}, h("form", { class: "controls", onsubmit: submit },
      h("div", { class: "grow" }, labeled("Sentence", this.text)), labeled("Layer", this.layer),
      this.cases.element, this.model.element, h("button", {}, "Show the steps")));
  }

  /** Set the controls. */
  show(state, examples) {
    const source = sourceOf(state);
    for (const tab of this.tabs.children) {
      const selected = tab.dataset.source === source;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      this.panels[tab.dataset.source].hidden = !selected;
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
    const one = models.find(({ id, default: isDefault }) => (model ? id === model : isDefault));
    const layers = Array.from({ length: one?.layers ?? 1 }, (_, i) => [String(i), String(i)]);
    const chosen = /^\d{1,3}$/.test(layer) ? String(Number(layer)) : "0";
    // An unknown layer in the address is listed too, and the service's error explains it.
    if (!layers.some(([number]) => number === chosen)) layers.push([chosen, chosen]);
    setOptions(this.layer, layers, chosen);
  }

  /** Compare an example with the values printed in teaching notes; show a summary and return the values. */
  showPrinted(example, trace) {
    const found = printedNumbers(example?.printed, trace);
    this.printed.textContent = example ? printedSentence(found, trace) : "";
    return found;
  }
}

/** Return the example of a state, the first by default. Examples are counted from 1. */
export function exampleOf(state, examples) {
  return examples[Number(state.example) - 1] ?? examples[0];
}

/** Return the source of a state: `example`, `sentence` or `numbers`. */
export function sourceOf(state) {
  return ["sentence", "numbers"].includes(state.source) ? state.source : "example";
}

/** Return the number of decimals of a state: 0 to 10, 4 by default. */
export function digitsOf(state) {
  return /^(\d|10)$/.test(state.decimals) ? Number(state.decimals) : 4;
}

/** Return the body of `POST v1/trace` for a state, or null if the sentence is empty. */
export function requestOf(state, examples) {
  const source = sourceOf(state);
  if (source === "example") return exampleOf(state, examples).request;
  if (source === "numbers") return numbersOf(state, examples);
  if (!state.text.trim()) return null;
  const layer = /^\d{1,3}$/.test(state.layer) ? Number(state.layer) : 0;
  return { text: state.text, layer, ...modelAndCase(state) };
}

/** Return the request with the reader's own numbers, or the request of the example if the numbers are not valid. */
function numbersOf(state, examples) {
  try {
    const request = JSON.parse(state.numbers);
    if (isEditable(request)) return request;
  } catch {
    // Not JSON.
  }
  return exampleOf(state, examples).request;
}

const PROJECTED = ["queries", "keys", "values"];
const FIELDS = new Set(["tokens", "embeddings", "weights", ...PROJECTED, "heads", "scale", "convention"]);

/** Whether the editor can show a request. The service checks that the shapes match. */
function isEditable(request) {
  if (typeof request !== "object" || request === null || Array.isArray(request)) return false;
  const { tokens, embeddings, weights = {}, heads = 1, scale = true, convention = "row" } = request;
  if (!Object.keys(request).every((name) => FIELDS.has(name))) return false;
  if (!Array.isArray(tokens) || !tokens.length || tokens.length > MAX_SIZE) return false;
  if (!tokens.every((token) => typeof token === "string")) return false;
  if (typeof weights !== "object" || weights === null) return false;
  if (!Object.entries(weights).every(([name, rows]) =>
    ["query", "key", "value", "output"].includes(name) && isMatrix(rows))) return false;
  if (!Number.isInteger(heads) || typeof scale !== "boolean") return false;
  if (!["row", "column"].includes(convention)) return false;
  if (embeddings !== undefined) return isMatrix(embeddings) && PROJECTED.every((name) => !(name in request));
  return PROJECTED.every((name) => isMatrix(request[name])) && !("weights" in request) && !("convention" in request);
}

function isMatrix(rows) {
  return Array.isArray(rows) && rows.length > 0 && rows.length <= MAX_SIZE && rows.every((row) =>
    Array.isArray(row) && row.length > 0 && row.length <= MAX_SIZE && row.length === rows[0].length
    && row.every((number) => typeof number === "number" && Number.isFinite(number)));
}

/**
 * Return the values that teaching notes print for an example: `{name, row, column, printed, digits, wrong}`.
 * A value is correct if it equals the service's, rounded to the printed decimals.
 */
function printedNumbers(printed, trace) {
  const digitsOfNumber = (number) => (String(number).split(".")[1] ?? "").length;
  return Object.entries(printed ?? {}).flatMap(([label, values]) => {
    const [name, indices = ""] = label.split("_row_");
    const [row, column] = indices ? indices.split("_").map(Number) : [];
    const digits = Math.max(...[values].flat(2).map(digitsOfNumber));
    const rows = row === undefined ? values : [[values].flat()];
    return rows.flatMap((numbers, i) => numbers.map((number, j) => {
      const cell = { name, query: null, row: row ?? i, column: column ?? j };
      // Slightly more than half a unit in the last place, for numbers that round either way.
      const wrong = !(Math.abs(trace.number(cell, 0) - number) <= 0.51 * 10 ** -digits);
      return { ...cell, printed: number.toFixed(digits), digits, wrong };
    }));
  });
}

/** Return a sentence about the number of wrong values and where they are. */
function printedSentence(found, trace) {
  if (!found.length) return "The notes print no values for this example.";
  const wrong = found.filter((one) => one.wrong);
  const one = found.length === 1;
  const values = one ? "1 value" : `${found.length} values`;
  if (!wrong.length) return `The notes print ${values} for this example: ${one ? "it is correct" : "all are correct"}.`;
  let count = `${wrong.length} are wrong`;
  if (wrong.length === found.length) count = "all of them are wrong";
  else if (wrong.length === 1) count = "1 is wrong";
  // "2 in the queries (row love), 4 in the keys (rows I, love)"
  const where = [...Map.groupBy(wrong, ({ name }) => name)].map(([name, numbers]) => {
    const rows = [...new Set(numbers.map(({ row }) => trace.words[row]))];
    return `${numbers.length} in the ${about(name).title.toLowerCase()} (row${rows.length > 1 ? "s" : ""} ${rows.join(", ")})`;
  });
  return `The notes print ${values} for this example, and ${count}: ${where.join(", ")}.`
    + " Wrong values are struck through next to the correct ones.";
}
