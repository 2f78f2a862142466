/** Attention as lines from query tokens to key tokens, after BertViz's head view. */

import { categoryColor } from "../colors.js";
import { pressable, rovingTabindex, s, svgDrawing } from "../elements.js";
import { fitTexts, maxTextWidth, short, shorten } from "../text.js";

const { max } = globalThis.d3;
const ROW = 20, TOP = 26, FONT = 12;
/** The space for the weights beside the key tokens. */
const MARKS = 40;
/** The minimum weight that gets a line and a number. */
const MIN_WEIGHT = 0.01;
/** The maximum number of words for which the lines of all query tokens are drawn at once. */
const MAX_WORDS = 150;

const middle = (i) => TOP + (i + 0.5) * ROW;

/** The drawing of the lines from words to columns; the query tokens are buttons, one tab stop. */
export class Lines {
  /**
   * Draw the weights `rows`, `width` pixels wide, with the accessible name `name`. `onpoint(row)` is called for the pointed or
   * focused query token, or with null; `onpick(row)` for a chosen one.
   */
  constructor(words, columns, rows, { width, name, onpoint, onpick }) {
    Object.assign(this, { rows, largest: max(rows, (row) => max(row, Math.abs)) });
    /** Whether the lines of all query tokens are drawn at once. */
    this.drawsAll = words.length <= MAX_WORDS;
    this.hasNegative = rows.some((row) => weightsOf(row).some(([weight]) => weight < 0));
    const labels = fitTexts(columns, FONT, Math.min(width * 0.3, 150));
    const labelWidth = Math.ceil(maxTextWidth([...labels, "query"], FONT));
    this.left = labelWidth + 8;
    this.right = this.left + Math.max(Math.min(width - 2 * labelWidth - MARKS - 8, 620), 40);
    const keys = this.right + MARKS;
    const label = (i, x, anchor) => s("text", {
      class: "label", x, y: middle(i), "text-anchor": anchor, "dominant-baseline": "central",
    }, labels[i]);
    this.queries = words.map((word, i) => s(
      "g",
      {
        class: "query", "aria-label": shorten(word),
        onpointerenter: () => onpoint(i), onfocus: () => onpoint(i), ...pressable(() => onpick(i)),
      },
      s("rect", { class: "ring unsaved", x: 1, y: middle(i) - ROW / 2, width: this.left - 2, height: ROW, rx: 3 }),
      label(i, labelWidth, "end"),
    ));
    const group = s("g", {
      role: "group", "aria-label": name, onpointerleave: () => onpoint(null), onfocusout: () => onpoint(null),
    }, this.queries);
    this.setStop = rovingTabindex(group);
    this.lines = s("g", {});
    this.marks = s("g", {});
    this.drawing = svgDrawing(
      "lines",
      Math.min(keys + labelWidth, width),
      TOP + columns.length * ROW,
      {},
      s("text", { class: "muted", x: labelWidth, y: 10, "text-anchor": "end" }, "query"),
      s("text", { class: "muted", x: keys, y: 10 }, "key"),
      this.lines, this.marks, group, columns.map((_, i) => label(i, keys, "start")),
    );
  }

  /** Mark the chosen query token, null for none; the keys start from token `from`. */
  choose(chosen, from) {
    this.queries.forEach((query, i) => query.setAttribute("aria-pressed", String(i === chosen)));
    this.setStop(this.queries[from]);
  }

  /** Show the lines of one query token. If `row` is null, show those of all tokens, or none in a sentence of many words. */
  highlight(row) {
    const shown = row !== null ? [row] : this.drawsAll ? [...this.rows.keys()] : [];
    this.lines.setAttribute("opacity", row === null ? 0.5 : 1);
    this.lines.replaceChildren(...shown.flatMap((each) => this.#linesOf(each)));
    this.marks.replaceChildren(...(row === null ? [] : weightsOf(this.rows[row]).map(([weight, column]) => s(
      "text",
      { class: "muted", x: this.right + 4, y: middle(column), "dominant-baseline": "central" },
      short(weight),
    ))));
    this.queries.forEach((query, i) => query.classList.toggle("lit", i === row));
  }

  #linesOf(row) {
    return weightsOf(this.rows[row]).map(([weight, column]) => {
      const strength = Math.abs(weight) / this.largest;
      return s("line", {
        x1: this.left, x2: this.right, y1: middle(row), y2: middle(column), stroke: categoryColor(0),
        "stroke-opacity": (0.06 + 0.94 * strength).toFixed(4), "stroke-width": (0.6 + 3 * strength).toFixed(3),
        "stroke-dasharray": weight < 0 && "4 3", "data-row": row, "data-column": column,
      });
    });
  }
}

/** Return the weights of a row that get a line, each with its column. */
const weightsOf = (row) => Array.from(row, (weight, column) => [weight, column]).filter(([weight]) => Math.abs(weight) >= MIN_WEIGHT);
