/** Attention as lines from query tokens to key tokens, after BertViz's head view. */

import { headColor } from "./heads.js";
import { h, rovingTabindex, s, svgDrawing } from "../elements.js";
import { fitTexts, maxTextWidth, short, shorten } from "../text.js";

const { max } = globalThis.d3;
const ROW = 20;
const TOP = 26;
const FONT = 12;
const SQUARE = 9;
/** The minimum weight that gets a line or a number. */
const MIN_WEIGHT = 0.01;
/** The maximum number of words for which the lines of all query tokens are drawn at once. */
const MAX_WORDS = 150;

/**
 * Draw the lines of `heads` from `words` to `columns`; a head is `{head, rows}`, where `head` is a number or `mean`. Return the `drawing`, the
 * layout for QueryList, and `highlight(row)`, which shows the lines of one query token. If `row` is null, it shows
 * those of all tokens, or none in a sentence of more than MAX_WORDS words.
 */
export function linesDrawing(words, columns, heads, width) {
  const layout = layoutOf(columns, heads, width);
  const maxWeight = max(heads, ({ rows }) => max(rows, (row) => max(row, Math.abs))) ?? 0;
  const all = words.length <= MAX_WORDS;
  const label = (i, x, anchor) => s("text", {
    class: "label", x, y: middle(i), "text-anchor": anchor, "dominant-baseline": "central",
  }, layout.labels[i]);
  const queries = words.map((_, i) => label(i, layout.left - 8, "end"));
  const keys = columns.map((_, i) => label(i, layout.keys, "start"));
  const lines = s("g", {});
  const marks = s("g", {});
  const drawing = svgDrawing(
    "lines",
    layout.width,
    TOP + columns.length * ROW,
    { "aria-hidden": "true" },
    s("text", { class: "muted", x: layout.left - 8, y: 10, "text-anchor": "end" }, "query"),
    s("text", { class: "muted", x: layout.keys, y: 10 }, "key"),
    lines, marks, queries, keys,
  );
  const highlight = (row) => {
    const rows = row !== null ? [row] : all ? [...words.keys()] : [];
    lines.setAttribute("opacity", row === null ? 0.5 : 1);
    lines.replaceChildren(...rows.flatMap((each) => rowLines(heads, each, layout, maxWeight)));
    marks.replaceChildren(...(row === null ? [] : rowMarks(heads, row, layout, maxWeight)));
    queries.forEach((text, i) => text.classList.toggle("lit", i === row));
  };
  highlight(null);
  const hasNegative = heads.some(({ rows }) => rows.some((row) => row.some((weight) => weight <= -MIN_WEIGHT)));
  return { drawing, highlight, hasNegative, drawsAll: all, row: ROW, top: TOP, left: layout.left };
}

/** Return the layout: where lines begin (`left`) and end (`right`), and where the key tokens are (`keys`). */
function layoutOf(words, heads, width) {
  const labels = fitTexts(words, FONT, Math.min(width * 0.3, 150));
  const labelWidth = Math.ceil(maxTextWidth([...labels, "query"], FONT));
  const marks = heads.length > 1 ? heads.length * SQUARE + 10 : 40;
  const between = Math.min(width - 2 * labelWidth - marks - 8, 620);
  const left = labelWidth + 8;
  const right = left + Math.max(between, 40);
  return { labels, left, right, keys: right + marks, width: Math.min(right + marks + labelWidth, width) };
}

const middle = (i) => TOP + (i + 0.5) * ROW;

function rowLines(heads, row, { left, right }, maxWeight) {
  return heads.flatMap(({ head, rows }, k) => Array.from(rows[row], (weight, j) => {
    if (Math.abs(weight) < MIN_WEIGHT) return null;
    const strength = Math.abs(weight) / maxWeight, offset = (k - (heads.length - 1) / 2) * 1.5;
    return s("line", {
      x1: left, x2: right, y1: middle(row) + offset, y2: middle(j) + offset,
      stroke: headColor(head), "stroke-opacity": (0.06 + 0.94 * strength).toFixed(4),
      "stroke-width": (0.6 + 3 * strength).toFixed(3), "stroke-dasharray": weight < 0 && "4 3", "data-row": row, "data-column": j, "data-head": head,
    });
  })).filter(Boolean);
}

/** Draw the weights next to the key tokens: a number for one head, else a square for each head. */
function rowMarks(heads, row, { right }, maxWeight) {
  if (heads.length !== 1) {
    return heads.flatMap(({ head, rows }, k) => Array.from(rows[row], (weight, j) => s("rect", {
      x: right + 4 + k * SQUARE, y: middle(j) - 6, width: SQUARE - 1, height: 12, fill: headColor(head),
      "fill-opacity": (Math.abs(weight) / maxWeight).toFixed(4), "data-column": j, "data-head": head,
    })));
  }
  return Array.from(heads[0].rows[row], (weight, j) => (Math.abs(weight) < MIN_WEIGHT ? null : s(
    "text",
    { class: "muted", x: right + 4, y: middle(j), "dominant-baseline": "central" },
    short(weight),
  ))).filter(Boolean);
}

/** Buttons over the query tokens of a drawing, one tab stop. */
export class QueryList {
  /** `onpoint(row)` is called for the pointed or focused token, or with null; `onpick(row)` for a chosen token. */
  constructor(words, { row, top, left }, { name, onpoint, onpick }) {
    this.buttons = words.map((word, i) => h("button", {
      type: "button", "aria-label": shorten(word),
      onpointerenter: () => onpoint(i), onfocus: () => onpoint(i), onclick: () => onpick(i),
    }));
    this.element = h("div", {
      class: "queries", role: "group", "aria-label": name, onpointerleave: () => onpoint(null), onfocusout: () => onpoint(null),
    }, this.buttons);
    Object.assign(this.element.style, { top: `${top}px`, width: `${left}px`, gridAutoRows: `${row}px` });
    this.setStop = rovingTabindex(this.element);
  }

  /** Mark the chosen token, null for none; the keys start from token `from`. */
  choose(chosen, from) {
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    if (!this.element.contains(document.activeElement)) this.setStop(this.buttons[from]);
  }
}
