/** A trace as matrices: the steps of an answer and the weights of its request, one head at a time. */

import { about, WEIGHTS } from "./names.js";
import { told } from "./words.js";

const SQUARE = new Set(["scores", "scaled_scores", "position_bias", "visible", "weights"]);
const BY_HEAD = new Set([
  "queries", "keys", "values", "scores", "scaled_scores", "position_bias", "scaled_word_bias",
  "weights", "weighted_values", "context",
]);
const VECTORS = new Set(["word_bias", "scaled_word_bias"]);

export class Trace {
  /** `request` is what was asked, `answer` what the service said. */
  constructor(request, answer) {
    this.request = request;
    this.tokens = answer.tokens;
    this.words = told(answer.tokens);
    this.columns = request.convention === "column";
    this.heads = answer.steps.find(({ name }) => name === "scores").shape.length === 3
      ? answer.steps.find(({ name }) => name === "scores").shape[0] : 1;
    this.steps = new Map();
    for (const step of answer.steps) {
      if (step.name === "queries") this.#brought(["query_weight", "key_weight", "value_weight"]);
      if (step.name === "output") this.#brought(["output_weight"]);
      this.steps.set(step.name, step);
    }
  }

  #brought(names) {
    for (const name of names) {
      const values = this.request.weights?.[WEIGHTS[name].field];
      if (!values) continue;
      const { row, symbol } = WEIGHTS[name];
      const shape = [values.length, values[0].length];
      const letters = this.columns ? row.toReversed() : row;
      this.steps.set(name, {
        name, shape, values, formula: symbol, letters: `[${letters.join(", ")}] = [${shape.join(", ")}]`,
      });
    }
  }

  has(name) {
    return this.steps.has(name);
  }

  formula(name) {
    return this.steps.get(name)?.formula ?? "";
  }

  /** Whether a step has its own numbers for each head here. */
  headed(name) {
    return this.heads > 1 && BY_HEAD.has(name);
  }

  /** The array of a step, of one head where it has heads. */
  array(name, head) {
    const { values } = this.steps.get(name);
    return this.headed(name) ? values[head] : values;
  }

  /** The columns of one head: the width of that head's array. */
  width(name, head = 0) {
    return this.array(name, head)[0].length;
  }

  /**
   * A step as a matrix: `rows` of numbers with the names of rows and columns. `looking` picks the
   * word whose weighted values are meant; a step with one number a word has one column.
   */
  matrix(name, head, looking) {
    const array = this.array(name, head);
    const words = this.words;
    if (VECTORS.has(name)) {
      return { rows: array.map((number) => [number]), rowNames: words, columnNames: ["bias"], words: "rows" };
    }
    const rows = name === "weighted_values" ? array[looking] : array;
    const columnNames = SQUARE.has(name) ? words : rows[0].map((_, c) => `c${c}`);
    const rowNames = name in WEIGHTS ? rows.map((_, r) => `c${r}`) : words;
    return { rows, rowNames, columnNames, words: SQUARE.has(name) ? "both" : name in WEIGHTS ? "none" : "rows" };
  }

  /** The cell that `scores:1:2` names (`weighted_values:1:2:0` has the looking word first), or null. */
  cell(text) {
    const [name, ...places] = text.split(":");
    if (!this.has(name) || !places.every((place) => /^\d{1,6}$/.test(place))) return null;
    const indices = places.map(Number);
    const looking = name === "weighted_values" ? indices.shift() : null;
    if (indices.length !== 2 || looking >= this.tokens.length) return null;
    const [row, column] = indices;
    const { rows } = this.matrix(name, 0, looking ?? 0);
    if (row >= rows.length || column >= rows[0].length) return null;
    return { name, looking, row, column };
  }

  /** The number in a cell. */
  number(cell, head) {
    return this.matrix(cell.name, head, cell.looking ?? 0).rows[cell.row][cell.column];
  }
}

/** The text of a cell; what `Trace.cell` reads. */
export function cellText({ name, looking, row, column }) {
  return [name, ...(name === "weighted_values" ? [looking] : []), row, column].join(":");
}

/** A cell in words: "scores, row love, column I". */
export function cellName(trace, cell) {
  const { rowNames, columnNames } = trace.matrix(cell.name, 0, cell.looking ?? 0);
  const looking = cell.looking === null ? "" : `, ${trace.words[cell.looking]} looking`;
  return `${about(cell.name).title}${looking}, row ${rowNames[cell.row]}, column ${columnNames[cell.column]}`;
}
