/** The reader's own numbers: words, matrices and how they are used. */

import { choice, h, labelled } from "../frame/elements.js";
import { MatrixField } from "./matrix_field.js";
import { MOST } from "./matrix_paste.js";
import { shown } from "./words.js";
import { identity, rowMatrices, turned, width, withWidth, withWords } from "./shapes.js";

const TITLES = {
  embeddings: "Embeddings X", queries: "Queries Q", keys: "Keys K", values: "Values V",
  query: "Query weights Wq", key: "Key weights Wk", value: "Value weights Wv", output: "Output weights Wo",
};
const WEIGHTS = ["query", "key", "value", "output"];
const POINTER = /^\/(?:weights\/)?(\w+)/;

export class StepEditor {
  /** `onchange(request)` with a request that is to be asked, or `null` while a cell is no number. */
  constructor(onchange) {
    this.tell = onchange;
    this.fields = new Map();
    this.kept = {};
    this.words = h("div", { class: "buttons token-names", role: "group", "aria-label": "Words" });
    this.kind = choice([["embeddings", "embeddings"], ["projected", "queries, keys, values"]], "embeddings",
      (kind) => this.#start(kind));
    this.heads = h("input", {
      type: "number", min: "1", max: "64", value: "1", class: "narrow", onchange: () => this.#heads(),
    });
    this.scale = h("input", {
      type: "checkbox", onchange: () => this.#to({ ...this.request, scale: this.scale.checked }),
    });
    this.convention = choice([["row", "x·W (rows)"], ["column", "W·x (columns)"]], "row",
      (convention) => this.#to({ ...this.request, convention }));
    this.conventionField = labelled("Weights are used as", this.convention);
    this.weights = h("fieldset", { class: "weights-on" }, h("legend", {}, "Weights"));
    this.on = Object.fromEntries(WEIGHTS.map((name) => [name, this.#onField(name)]));
    this.matrices = h("div", { class: "matrices" });
    this.element = h(
      "div",
      { class: "editor" },
      h("div", { class: "controls" }, labelled("Start from", this.kind), labelled("Heads", this.heads),
        this.conventionField, h("label", { class: "inline" }, this.scale, " divide by √k"), this.weights),
      this.words,
      h("p", { class: "muted" }, "Type a number, or paste a whole matrix into any of its cells: lines with tabs, commas,"
        + ` semicolons or spaces, JSON, or what NumPy prints; at most ${MOST} by ${MOST}.`),
      this.matrices,
    );
  }

  #onField(name) {
    const box = h("input", { type: "checkbox", onchange: () => this.#to(switched(this.request, name, box.checked)) });
    this.weights.append(h("label", { class: "inline" }, box, ` ${name}`));
    return box;
  }

  /** Show a request; the draft of the reader stays where it says the same. */
  show(request) {
    if (JSON.stringify(request) === this.shown) return;
    this.kept = {};
    this.#set(request);
  }

  #set(request) {
    this.shown = JSON.stringify(request);
    this.request = request;
    this.kind.value = request.embeddings ? "embeddings" : "projected";
    this.heads.value = request.heads ?? 1;
    this.heads.removeAttribute("aria-invalid");
    this.headsBroken = false;
    this.scale.checked = request.scale ?? true;
    this.convention.value = request.convention ?? "row";
    this.conventionField.hidden = !request.embeddings;
    this.weights.hidden = !request.embeddings;
    for (const name of WEIGHTS) this.on[name].checked = Boolean(request.weights?.[name]);
    this.#showWords();
    this.#showMatrices();
  }

  #showWords() {
    const at = [...this.words.querySelectorAll("input")].indexOf(document.activeElement);
    const pressed = this.buttons?.indexOf(document.activeElement) ?? -1;
    const { tokens } = this.request;
    const inputs = tokens.map((token, i) => h("input", {
      type: "text", dir: "auto", size: Math.min(Math.max(token.length, 3), 14), maxlength: "100", value: token,
      "aria-label": `Word ${i}`, autocomplete: "off", spellcheck: "false",
      onchange: ({ target }) => this.#to({ ...this.request, tokens: tokens.with(i, target.value) }),
    }));
    this.buttons = [
      button("+ word", "Add a word", () => this.#to(withWords(this.request, tokens.length + 1)), tokens.length >= MOST),
      button("− word", "Remove the last word", () => this.#to(withWords(this.request, tokens.length - 1)), tokens.length < 2),
    ];
    this.words.replaceChildren(...inputs, ...this.buttons);
    if (at >= 0) inputs[Math.min(at, inputs.length - 1)].focus();
    // A button that is of no more use hands the focus to the other.
    if (pressed >= 0) this.buttons[this.buttons[pressed].disabled ? 1 - pressed : pressed].focus();
  }

  #showMatrices() {
    const { request } = this;
    const names = [...rowMatrices(request), ...WEIGHTS.filter((name) => request.weights?.[name])];
    for (const name of this.fields.keys()) if (!names.includes(name)) this.fields.delete(name);
    for (const name of names) if (!this.fields.has(name)) this.fields.set(name, this.#field(name));
    const elements = names.map((name) => this.fields.get(name).element);
    if (elements.some((element, i) => element !== this.matrices.children[i]) || elements.length !== this.matrices.children.length) {
      this.matrices.replaceChildren(...elements);
    }
    for (const name of names) {
      const rows = request[name] ?? request.weights[name];
      const rowNames = name in request ? rows.map((_, i) => shown(request.tokens[i] ?? `row ${i}`)) : rows.map((_, i) => `c${i}`);
      this.fields.get(name).show(rows, rowNames, rows[0].map((_, j) => `c${j}`));
    }
  }

  #field(name) {
    const change = (by) => () => this.#to(withWidth(this.request, name, by));
    const title = TITLES[name];
    // The output's shape follows from the values and the embeddings.
    const buttons = name === "output" ? [] : [
      button("+ column", `${title}: add a column`, change(1), false),
      button("− column", `${title}: remove the last column`, change(-1), false),
    ];
    return new MatrixField(title, {
      buttons,
      onchange: (rows) => this.#edited(name, rows),
      onpaste: (rows) => this.#to(replaced(this.request, name, rows)),
    });
  }

  #edited(name, rows) {
    if (rows) this.request = replaced(this.request, name, rows);
    if (this.broken) return this.tell(null);
    this.shown = JSON.stringify(this.request);
    this.tell(this.request);
  }

  /** Whether something that is typed is no number: nothing is asked until it is mended. */
  get broken() {
    return this.headsBroken || [...this.fields.values()].some(({ broken }) => broken);
  }

  #heads() {
    const heads = Number(this.heads.value);
    this.headsBroken = !Number.isInteger(heads) || heads < 1 || heads > 64;
    if (this.headsBroken) {
      this.heads.setAttribute("aria-invalid", "true");
      return this.tell(null, "The number of heads is a whole number from 1 to 64.");
    }
    this.heads.removeAttribute("aria-invalid");
    this.#to({ ...this.request, heads });
  }

  /** Start from other matrices; those that were there are kept for the way back. */
  #start(kind) {
    const { tokens, heads, scale, ...matrices } = this.request;
    this.kept[matrices.embeddings ? "embeddings" : "projected"] = matrices;
    const common = { tokens, ...(heads !== undefined && { heads }), ...(scale !== undefined && { scale }) };
    const x = matrices.embeddings ?? matrices.queries;
    const fresh = kind === "embeddings" ? { embeddings: x } : { queries: x, keys: x, values: x };
    this.#to(withWords({ ...common, ...(this.kept[kind] ?? fresh) }, tokens.length));
  }

  #to(request) {
    this.#set(request);
    this.tell(request);
  }

  /** Mark the matrices that the service's errors name. */
  refused(errors) {
    for (const { pointer, message } of errors) {
      const name = POINTER.exec(pointer)?.[1];
      this.fields.get(name)?.say(`${TITLES[name]} ${message}.`);
      if (name === "heads") this.heads.setAttribute("aria-invalid", "true");
    }
  }

  /** The service had nothing against these numbers. */
  accepted() {
    for (const field of this.fields.values()) field.say("");
  }
}

function replaced(request, name, rows) {
  if (name === "embeddings") return { ...withWords(request, rows.length), embeddings: rows };
  if (name in request) return { ...request, [name]: rows };
  return { ...request, weights: { ...request.weights, [name]: rows } };
}

/** A weight turned on, as the identity of a fitting size, or off. */
function switched(request, name, on) {
  const { [name]: _, ...others } = request.weights ?? {};
  const d = request.embeddings[0].length;
  const rows = { query: [d, "key"], key: [d, "query"], value: [d, null] }[name];
  const wide = rows && others[rows[1]] ? width({ ...request, weights: others }, rows[1]) : d;
  const tall = name === "output" && others.value ? width({ ...request, weights: others }, "value") : d;
  const start = cornered(tall, wide);
  const weights = on ? { ...others, [name]: request.convention === "column" ? turned(start) : start } : others;
  const { weights: __, ...rest } = request;
  return Object.keys(weights).length ? { ...rest, weights } : rest;
}

/** Ones on the diagonal of a matrix that need not be square. */
function cornered(tall, wide) {
  return identity(Math.max(tall, wide)).slice(0, tall).map((row) => row.slice(0, wide));
}

function button(text, name, onclick, off) {
  return h("button", { type: "button", class: "quiet small", "aria-label": name, disabled: off, onclick }, text);
}
