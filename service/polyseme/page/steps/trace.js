/** A trace as matrices, with the title, the shape and a description of each step. */

import { readJson } from "../client.js";
import { shorten } from "../text.js";

const STEPS = await readJson("steps/steps.json");

/** The letters in shapes. */
export const LETTERS = [
  ["n", "tokens"], ["d", "width of a vector"], ["k", "width of a query or key in one head"],
  ["v", "width of a value in one head"], ["m", "width of the hidden layer"], ["h", "heads"],
];

/**
 * Return the description of a step: its `title`, the letters of its `shape` without the axis of the heads, what it `does`, and
 * its `symbol` in formulas. An unknown step has its name as title. `term` is its name in a sum of logits.
 */
export function about(name) {
  const step = STEPS[name] ?? { title: name.replaceAll("_", " "), shape: "n, d", does: "" };
  return { ...step, term: step.symbol?.startsWith("S") ? "score" : step.symbol };
}

/** The weights of a request, which are steps before the step that they compute. */
const WEIGHTS = { queries: ["query", "key", "value"], output: ["output"] };

export class Trace {
  /** `request` is the body, `response` the parsed response of `POST v1/trace`. */
  constructor(request, response) {
    this.request = request;
    this.words = distinctWords(response.tokens);
    this.columns = request.convention === "column";
    this.steps = new Map();
    for (const step of response.steps) {
      for (const field of WEIGHTS[step.name] ?? []) this.#addWeight(field);
      this.steps.set(step.name, step);
    }
    const { shape } = this.steps.get("scores");
    this.heads = shape.length === 3 ? shape[0] : 1;
  }

  /** Add a weight of the request as a step. */
  #addWeight(field) {
    const values = this.request.weights?.[field];
    if (!values) return;
    const name = `${field}_weight`;
    this.steps.set(name, { name, values, shape: [values.length, values[0].length], formula: `W${field[0]}`, operation: "given" });
  }

  /** Return the letters of a step's shape without the axis of the heads: `["n", "k"]`. */
  #letters(name) {
    const letters = about(name).shape.split(", ");
    return name.endsWith("_weight") && this.columns ? letters.toReversed() : letters;
  }

  /** Return a shape as `[n, k] = [3, 2]`, with `h` in front for an array with heads. */
  shapeText(name) {
    const letters = this.#letters(name);
    return `[${this.headed(name) ? "h, " : ""}${letters.join(", ")}] = [${this.steps.get(name).shape.join(", ")}]`;
  }

  /** Whether a step has an array for each head. */
  headed(name) {
    return this.steps.get(name).shape.length > this.#letters(name).length;
  }

  /** Return the array of a step, or of one head if the step has heads. */
  array(name, head) {
    const { values } = this.steps.get(name);
    return this.headed(name) ? values[head] : values;
  }

  /** Whether a word of a sentence is unknown: its value is zero in every head. */
  isUnknown(row) {
    const { values } = this.steps.get("values"), heads = this.headed("values") ? values : [values];
    return this.request.text !== undefined && heads.every((rows) => rows[row].every((number) => number === 0));
  }

  /** Return the number of columns of a step in one head. */
  width(name, head = 0) {
    return this.array(name, head)[0].length;
  }

  /**
   * Return a step as a matrix, `{rows, rowNames, columnNames}`. `query` is the index of the query token for weighted
   * values. A step with one number for each token has one column.
   */
  matrix(name, head, query) {
    const [down, across] = this.#letters(name).slice(-2);
    let rows = this.array(name, head);
    if (name === "weighted_values") rows = rows[query];
    if (!across) rows = rows.map((number) => [number]);
    const names = (letter, numbers) => (letter === "n" ? this.words : numbers.map((_, i) => `c${i}`));
    return { rows, rowNames: names(down, rows), columnNames: across ? names(across, rows[0]) : ["bias"] };
  }

  /** Parse a cell such as `scores:1:2`, or return null; `weighted_values:1:2:0` starts with the query token. */
  cell(text) {
    const [name, ...parts] = text.split(":");
    if (!this.steps.has(name) || !parts.every((part) => /^\d{1,6}$/.test(part))) return null;
    const indices = parts.map(Number);
    const query = name === "weighted_values" ? indices.shift() : null;
    if (indices.length !== 2 || query >= this.words.length) return null;
    const [row, column] = indices;
    const { rows } = this.matrix(name, 0, query);
    return row < rows.length && column < rows[0].length ? { name, query, row, column } : null;
  }

  /** Return a cell of a step in a row, if the step has the row; `row` is the query token of weighted values. */
  firstCell(name, row) {
    const query = name === "weighted_values" ? row : null;
    const { rows } = this.matrix(name, 0, query);
    return { name, query, row: query === null && row < rows.length ? row : 0, column: 0 };
  }

  /** Return the number in a cell. */
  number({ name, query, row, column }, head) {
    return this.matrix(name, head, query).rows[row][column];
  }

  /** Return the name of a cell: "Scores, row love, column I". */
  cellName({ name, query, row, column }, head) {
    const { rowNames, columnNames } = this.matrix(name, head, query);
    const where = query === null ? "" : `, query ${this.words[query]}`;
    return `${about(name).title}${where}, row ${rowNames[row]}, column ${columnNames[column]}`
      + (this.headed(name) ? `, head ${head}` : "");
  }
}

/** Return a cell as text, which `Trace.cell` parses. */
export function cellText({ name, query, row, column }) {
  return [name, ...(name === "weighted_values" ? [query] : []), row, column].join(":");
}

/** The maximum number of graphemes of a word. */
const MAX_WORD = 48;

/** Return the names of rows: the words, numbered if they occur more than once. */
function distinctWords(tokens) {
  const words = tokens.map((token) => shorten(token, MAX_WORD));
  const occurrences = Map.groupBy(words.keys(), (i) => words[i]);
  return words.map((word, i) => {
    const same = occurrences.get(word);
    return same.length === 1 ? word : word + subscript(same.indexOf(i) + 1);
  });
}

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const subscript = (number) => [...String(number)].map((digit) => SUBSCRIPTS[digit]).join("");
