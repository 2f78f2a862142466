/** The editor for the reader's own numbers. Matrices whose shapes must match are resized together. */

import { h, labeled, selectBox } from "../elements.js";
import { MatrixField, MAX_SIZE } from "./matrix_field.js";
import { shortWord } from "./trace.js";

const TITLES = {
  embeddings: "Embeddings X", queries: "Queries Q", keys: "Keys K", values: "Values V",
  query: "Query weights Wq", key: "Key weights Wk", value: "Value weights Wv", output: "Output weights Wo",
};
const WEIGHTS = ["query", "key", "value", "output"];
const POINTER = /^\/(?:weights\/)?(\w+)/;

export class StepEditor {
  /** `onchange(request, message)` is called with a request, or with null and, for invalid heads, an error message. */
  constructor(onchange) {
    this.notify = onchange;
    this.fields = new Map();
    /** Replaced matrices, by the kind (`embeddings` or `projected`) that the request started from. */
    this.kept = {};
    this.words = h("div", { class: "buttons token-names", role: "group", "aria-label": "Words" });
    this.kind = selectBox([["embeddings", "embeddings"], ["projected", "queries, keys, values"]], "embeddings",
      (kind) => this.#startFrom(kind));
    this.heads = h("input", {
      type: "number", min: "1", max: "64", value: "1", class: "narrow", onchange: () => this.#changeHeads(),
    });
    this.scale = h("input", {
      type: "checkbox", onchange: () => this.#change({ ...this.request, scale: this.scale.checked }),
    });
    this.convention = selectBox([["row", "x·W (rows)"], ["column", "W·x (columns)"]], "row",
      (convention) => this.#change({ ...this.request, convention }));
    this.conventionField = labeled("Convention", this.convention);
    this.weights = h("fieldset", { class: "weights-on" }, h("legend", {}, "Weights"));
    this.on = Object.fromEntries(WEIGHTS.map((name) => [name, this.#weightBox(name)]));
    this.matrices = h("div", { class: "matrices" });
    this.element = h(
      "div",
      { class: "editor" },
      h("div", { class: "controls" }, labeled("Start from", this.kind), labeled("Heads", this.heads),
        this.conventionField, h("label", { class: "inline" }, this.scale, " divide by √k"), this.weights),
      this.words,
      h("p", { class: "muted" }, "Type a number, or paste a whole matrix into one of its cells: JSON, NumPy's output, or lines of"
        + ` numbers separated by tabs, commas, semicolons or spaces; at most ${MAX_SIZE} by ${MAX_SIZE}.`),
      this.matrices,
    );
  }

  #weightBox(name) {
    const box = h("input", { type: "checkbox", onchange: () => this.#change(withWeight(this.request, name, box.checked)) });
    this.weights.append(h("label", { class: "inline" }, box, ` ${name}`));
    return box;
  }

  /** Show a request, unless it is the one that the editor already shows. */
  show(request) {
    if (JSON.stringify(request) === this.shown) return;
    this.kept = {};
    this.#set(request);
  }

  #set(request) {
    this.shown = JSON.stringify(request);
    // The buttons of the weights depend on the convention.
    if (request.convention !== this.request?.convention) this.fields.clear();
    this.request = request;
    this.kind.value = request.embeddings ? "embeddings" : "projected";
    this.heads.value = request.heads ?? 1;
    this.heads.removeAttribute("aria-invalid");
    this.headsInvalid = false;
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
    const focused = this.buttons?.indexOf(document.activeElement) ?? -1;
    const { tokens } = this.request;
    const inputs = tokens.map((token, i) => h("input", {
      type: "text", dir: "auto", size: Math.min(Math.max(token.length, 3), 14), maxlength: "100", value: token,
      "aria-label": `Word ${i}`, autocomplete: "off", spellcheck: "false",
      onchange: ({ target }) => this.#change({ ...this.request, tokens: tokens.with(i, target.value) }),
    }));
    this.buttons = [
      button("+ word", "Add a word", () => this.#change(withTokens(this.request, tokens.length + 1)), tokens.length >= MAX_SIZE),
      button("− word", "Remove the last word", () => this.#change(withTokens(this.request, tokens.length - 1)), tokens.length < 2),
    ];
    this.words.replaceChildren(...inputs, ...this.buttons);
    if (at >= 0) inputs[Math.min(at, inputs.length - 1)].focus();
    // If the focused button is now disabled, focus the other one.
    if (focused >= 0) this.buttons[this.buttons[focused].disabled ? 1 - focused : focused].focus();
  }

  #showMatrices() {
    const { request } = this;
    const names = [...tokenMatrices(request), ...WEIGHTS.filter((name) => request.weights?.[name])];
    for (const name of this.fields.keys()) if (!names.includes(name)) this.fields.delete(name);
    for (const name of names) if (!this.fields.has(name)) this.fields.set(name, this.#field(name));
    const elements = names.map((name) => this.fields.get(name).element);
    if (elements.some((element, i) => element !== this.matrices.children[i]) || elements.length !== this.matrices.children.length) {
      this.matrices.replaceChildren(...elements);
    }
    for (const name of names) {
      const rows = request[name] ?? request.weights[name];
      const rowNames = name in request ? rows.map((_, i) => shortWord(request.tokens[i] ?? `row ${i}`)) : rows.map((_, i) => `c${i}`);
      this.fields.get(name).show(rows, rowNames, rows[0].map((_, j) => `c${j}`));
    }
  }

  #field(name) {
    const change = (by) => () => this.#change(withColumns(this.request, name, by));
    const title = TITLES[name];
    // Weights are transposed in the column convention.
    const line = WEIGHTS.includes(name) && this.request.convention === "column" ? "row" : "column";
    // The value weights and the embeddings determine the shape of the output weights.
    const buttons = name === "output" ? [] : [
      button(`+ ${line}`, `${title}: add a ${line}`, change(1), false),
      button(`− ${line}`, `${title}: remove the last ${line}`, change(-1), false),
    ];
    return new MatrixField(title, {
      buttons,
      onchange: (rows) => this.#changeMatrix(name, rows),
      onpaste: (rows) => this.#change(withMatrix(this.request, name, rows)),
    });
  }

  #changeMatrix(name, rows) {
    if (rows) this.request = withMatrix(this.request, name, rows);
    if (this.invalid) return this.notify(null);
    this.shown = JSON.stringify(this.request);
    this.notify(this.request);
  }

  /** Whether a cell, or the number of heads, is not valid. */
  get invalid() {
    return this.headsInvalid || [...this.fields.values()].some(({ invalid }) => invalid);
  }

  #changeHeads() {
    const heads = Number(this.heads.value);
    this.headsInvalid = !Number.isInteger(heads) || heads < 1 || heads > 64;
    if (this.headsInvalid) {
      this.heads.setAttribute("aria-invalid", "true");
      return this.notify(null, "The number of heads is a whole number from 1 to 64.");
    }
    this.heads.removeAttribute("aria-invalid");
    this.#change({ ...this.request, heads });
  }

  /** Start from embeddings, or from queries, keys and values; keep the other matrices for switching back. */
  #startFrom(kind) {
    const { tokens, heads, scale, ...matrices } = this.request;
    this.kept[matrices.embeddings ? "embeddings" : "projected"] = matrices;
    const common = { tokens, ...(heads !== undefined && { heads }), ...(scale !== undefined && { scale }) };
    const x = matrices.embeddings ?? matrices.queries;
    const fresh = kind === "embeddings" ? { embeddings: x } : { queries: x, keys: x, values: x };
    this.#change(withTokens({ ...common, ...(this.kept[kind] ?? fresh) }, tokens.length));
  }

  #change(request) {
    this.#set(request);
    this.notify(request);
  }

  /** Mark the matrices, and the number of heads, that the service's errors name. */
  markErrors(errors) {
    for (const { pointer, message } of errors) {
      const name = POINTER.exec(pointer)?.[1];
      this.fields.get(name)?.showError(`${TITLES[name]} ${message}.`);
      if (name === "heads") this.heads.setAttribute("aria-invalid", "true");
    }
  }

  /** Clear the marks of the matrices: the service accepted the numbers. */
  clearErrors() {
    for (const field of this.fields.values()) field.showError("");
  }
}

/** Return the request with a matrix replaced. */
function withMatrix(request, name, rows) {
  if (name === "embeddings") return { ...withTokens(request, rows.length), embeddings: rows };
  if (name in request) return { ...request, [name]: rows };
  return { ...request, weights: { ...request.weights, [name]: rows } };
}

/** Return the request with a weight removed, or added as an identity matrix of the required shape. */
function withWeight(request, name, on) {
  const { [name]: _, ...others } = request.weights ?? {};
  const d = request.embeddings[0].length;
  const partner = { query: "key", key: "query" }[name];
  const outputs = partner && others[partner] ? width({ ...request, weights: others }, partner) : d;
  const inputs = name === "output" && others.value ? width({ ...request, weights: others }, "value") : d;
  const start = range(inputs).map((i) => range(outputs).map((j) => (i === j ? 1 : 0)));
  const weights = on ? { ...others, [name]: request.convention === "column" ? transposed(start) : start } : others;
  const { weights: __, ...rest } = request;
  return Object.keys(weights).length ? { ...rest, weights } : rest;
}

function button(text, name, onclick, off) {
  return h("button", { type: "button", class: "quiet small", "aria-label": name, disabled: off, onclick }, text);
}

const PROJECTED = ["queries", "keys", "values"];

/** Return the names of the matrices with a row for each token. */
function tokenMatrices(request) {
  return request.embeddings ? ["embeddings"] : PROJECTED;
}

/** Return the request with `count` tokens; new ones are named like "word 3", with zero vectors. */
function withTokens(request, count) {
  if (count < 1 || count > MAX_SIZE) return request;
  const tokens = range(count).map((i) => request.tokens[i] ?? `word ${i}`);
  const matrices = tokenMatrices(request).map((name) => [name, resized(request[name], count, request[name][0].length)]);
  return { ...request, tokens, ...Object.fromEntries(matrices) };
}

/**
 * Return the request with `by` columns added to a matrix, or removed from it if `by` is negative. Rows and columns
 * of weights are those of the row convention, x·W. The matrices that must match are resized too: with `embeddings`,
 * the rows of `query`, `key` and `value` and the columns of `output`; `query` with `key`; with `value`, the rows of
 * `output`; `queries` with `keys`. Without weights, queries, keys and values are the embeddings, so `query` without
 * `key`, and the reverse, is resized with `embeddings`.
 */
function withColumns(request, name, by) {
  const count = width(request, name) + by;
  if (count < 1 || count > MAX_SIZE) return request;
  if (name === "values") return { ...request, values: columns(request.values, by) };
  if (name === "queries" || name === "keys") {
    return { ...request, queries: columns(request.queries, by), keys: columns(request.keys, by) };
  }
  const { query, key } = request.weights ?? {};
  if ((name === "query" && !key) || (name === "key" && !query)) return withColumns(request, "embeddings", by);
  const oriented = request.convention === "column" ? transposed : (rows) => rows;
  const weights = Object.fromEntries(Object.entries(request.weights ?? {}).map(([field, rows]) => {
    const own = oriented(rows), [down, across] = changes(name, request.weights)[field] ?? [0, 0];
    return [field, oriented(resized(own, own.length + down * by, own[0].length + across * by))];
  }));
  const embeddings = name === "embeddings" ? columns(request.embeddings, by) : request.embeddings;
  return { ...request, embeddings, ...(request.weights && { weights }) };
}

/** Return the number of columns of a matrix in the row convention, x·W. */
function width(request, name) {
  const rows = request[name] ?? request.weights[name];
  return request.convention === "column" && !request[name] ? rows.length : rows[0].length;
}

/** Return the rows and columns (of the row convention) that each weight gains when a matrix gains a column. */
function changes(name, { query, key, value }) {
  return {
    embeddings: { query: [1, key ? 0 : 1], key: [1, query ? 0 : 1], value: [1, 0], output: [value ? 0 : 1, 1] },
    query: { query: [0, 1], key: [0, 1] },
    key: { query: [0, 1], key: [0, 1] },
    value: { value: [0, 1], output: [1, 0] },
  }[name];
}

const columns = (rows, by) => resized(rows, rows.length, rows[0].length + by);
const range = (count) => Array.from({ length: count }, (_, i) => i);

/** Return a matrix cut or zero-padded to another shape. */
function resized(rows, height, across) {
  return range(Math.max(height, 1)).map((i) => range(Math.max(across, 1)).map((j) => rows[i]?.[j] ?? 0));
}

/** Return the transpose of a matrix. */
function transposed(rows) {
  return rows[0].map((_, j) => rows.map((row) => row[j]));
}

