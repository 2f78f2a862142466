/** The attention weights of one layer: a heatmap or lines, and a table. */

import { HeadControls, headName, Thumbnails } from "./heads.js";
import { heatmapDrawing, HeatmapCursor } from "./heatmap.js";
import { linesDrawing, QueryList } from "./lines.js";
import { ranked } from "./sentence.js";
import { theme } from "../colors.js";
import { changeDetector, copyText, h, pointAt, quietButton } from "../elements.js";
import { Figure, Readout } from "../figure.js";
import { numberTable, separatedText } from "../table.js";
import { decimals, shorten } from "../text.js";

/** Milliseconds from the last key press to the change of the address: browsers limit the rate of changes. */
const PAUSE = 150;
/** The maximum number of keys that the readout names for a query token. */
const MAX_KEYS = 3;

/** The figure of the chosen head, and the card to choose a head. */
export class AttentionFigure {
  constructor(page) {
    this.page = page;
    this.heads = new HeadControls(page);
    this.thumbnails = new Thumbnails((layer, head) =>
      page.update({ layer: String(layer), head: String(head) }));
    this.missing = h("p", { class: "missing", role: "status", hidden: true });
    this.chooser = h("section", { class: "card chooser", "aria-label": "Layers and heads" },
      h("h3", {}, "Layers and heads"),
      h("p", { class: "muted" }, "Each scale runs from 0 to the head's largest weight."),
      this.missing,
      this.thumbnails.element);
    this.figure = new Figure("polyseme-attention", "Attention", "query words: rows, or left; key words: columns, or right");
    this.figure.tools.append(...this.heads.controls);
    this.readout = new Readout();
    this.figure.body.before(this.heads.legend, this.readout.element);
    this.thumbnailsChanged = changeDetector();
    this.figureChanged = changeDetector();
  }

  /** Show an encoded sentence; `state` has the layer, head and picture, `token` is the chosen token. */
  show(encoded, state, token) {
    this.#followAddress(encoded, state);
    const layer = encoded.layer(state.layer), lines = state.picture === "lines";
    const each = lines && state.head === "each";
    const head = each ? "each" : encoded.head(state.head);
    Object.assign(this, { encoded, layer, token, weights: encoded.weights(layer, each ? "mean" : head) });
    if (this.thumbnailsChanged(encoded, theme())) this.thumbnails.draw(encoded);
    this.thumbnails.choose(layer, head);
    const missing = encoded.missingMessage(state);
    this.missing.hidden = !missing;
    if (this.missing.textContent !== missing) this.missing.textContent = missing;
    this.heads.show(encoded, { layer, head, lines, chosen: state.heads });
    /** The name of `weights`, which are the mean of the heads if the lines show each head. */
    this.weightsName = headName(encoded, layer, each ? "mean" : head);
    this.name = each ? `Layer ${layer}, each head` : this.weightsName;
    this.contributes = head === "contributions";
    this.verb = this.contributes ? " gets from " : " attends to ";
    this.readout.element.classList.toggle("several", lines);
    if (lines) this.#showLines(layer, head, state);
    else this.#showHeatmap(state);
  }

  /** Forget the cell that the keyboard moved to if the sentence, or the cell in the address, changed. */
  #followAddress(encoded, { row, column }) {
    const same = encoded === this.encoded && row === this.addressed?.row && column === this.addressed.column;
    if (!same) {
      clearTimeout(this.timer);
      this.moved = null;
    }
    this.addressed = { row, column };
  }

  #showHeatmap(state) {
    const inputs = ["heatmap", this.weights, theme(), this.figure.width()];
    if (this.figureChanged(...inputs)) this.#drawHeatmap();
    this.cursor.show(this.moved ?? this.encoded.cell(state, this.token, this.weights), this.token);
  }

  #drawHeatmap() {
    const { words } = this.encoded, columns = this.encoded.columns(this.contributes ? "contributions" : "mean");
    const { drawing, layout, highlight } = heatmapDrawing(columns, this.weights, this.figure.width());
    this.figure.heading.textContent = `Attention: ${this.name}`;
    this.figure.caption.textContent = `${this.#explanation("Each row is a query word, each column a key word")} ${
      pointAt("a cell", "use the arrow keys")}`;
    this.cursor = new HeatmapCursor({
      layout,
      name: `Heatmap of ${this.contributes ? "contributions" : "attention"} between ${words.length} words. ${this.name}`,
      describe: ({ row, column }) =>
        `${shorten(words[row])}${this.verb}${shorten(columns[column])}: ${this.#weight(row, column)}`,
      onpoint: ({ row, column }, announce) => {
        highlight(row, column);
        this.readout.show(this.#sentence(row, [column]), announce);
      },
      // The cursor moves immediately, and the address changes after a pause.
      onmove: (at) => {
        this.moved = at;
        this.cursor.show(at, this.token);
        clearTimeout(this.timer);
        this.timer = setTimeout(() => {
          this.page.update({ row: String(this.moved.row), column: String(this.moved.column) });
        }, PAUSE);
      },
      onpick: ({ row, column }) =>
        this.page.update({ word: String(row), row: String(row), column: String(column) }),
    });
    this.#replaceDrawing(drawing, this.cursor.element);
  }

  /** Explain the numbers; `layout` says where query and key words are. */
  #explanation(layout) {
    const { encoded, layer } = this;
    const diagonal = encoded.isOthersOnly(layer)
      ? " In this layer a word does not attend to itself, so its own column is 0: what it keeps of itself is “the word itself”." : "";
    const before = layer ? ` In this layer, a word is its vector from layer ${layer - 1}, which other words are part of.` : "";
    if (!this.contributes) {
      return `${layout}. A weight says how much a head attends to a word; the weights of a word sum to 1.${
        diagonal.replace(/:.*/, ".")}${before}`;
    }
    return "A contribution is a word's exact share in the contextual vector, all heads together; a weight only says how much one"
      + ` head attends to it. The shares of a vector sum to 1; a negative one pulls it away.${diagonal}${before}`;
  }

  /** Replace the drawing; keep the focus in it. */
  #replaceDrawing(drawing, control) {
    const focused = this.figure.body.contains(document.activeElement);
    this.figure.show(drawing, control);
    if (focused) control.focus({ preventScroll: true });
  }

  #showLines(layer, head, state) {
    const heads = head === "each" ? this.heads.chosen : [head];
    const inputs = ["lines", this.encoded, theme(), this.figure.width(), layer, ...heads];
    // Without a chosen token, the lines of all tokens are shown.
    this.chosen = state.word === "" ? null : this.token;
    if (this.figureChanged(...inputs)) this.#drawLines(layer, heads);
    this.queries.choose(this.token);
    this.#highlightLines(this.pointed ?? null);
  }

  #drawLines(layer, heads) {
    const { words } = this.encoded;
    const shown = heads.map((head) => ({ head, rows: this.encoded.weights(layer, head) }));
    const columns = this.encoded.columns(heads[0]);
    const lines = linesDrawing(words, columns, shown, this.figure.width());
    this.pointed = null;
    this.highlight = lines.highlight;
    this.figure.heading.textContent = `Attention: ${this.name}`;
    const what = this.contributes ? "contribution" : "weight";
    this.figure.caption.textContent = `${this.#explanation("Query words are on the left, key words on the right")
    } A stronger line is a larger ${what}${lines.hasNegative ? ", a dashed one is negative" : ""}; below 0.01, none is drawn.${
      lines.drawsAll ? "" : " In a sentence of this length, only the lines of one word are drawn."}`;
    this.queries = new QueryList(words, lines, {
      name: `Query tokens. ${this.name}`,
      onpoint: (row) => this.#highlightLines(row),
      // Choosing the same token again clears the choice.
      onpick: (row) => this.page.update({ word: row === this.chosen ? "" : String(row) }),
    });
    this.#replaceDrawing(lines.drawing, this.queries.element);
  }

  /** Show the lines of the pointed row, else of the chosen row, else of all rows. */
  #highlightLines(pointed) {
    this.pointed = pointed;
    const row = pointed ?? this.chosen;
    this.highlight(row);
    if (row === null) this.readout.show(pointAt("a word on the left", "use the arrow keys"), false);
    else this.readout.show(this.#sentence(row, ranked(this.weights[row]).slice(0, MAX_KEYS)));
  }

  #weight(row, column) {
    return decimals(this.weights[row][column], 4);
  }

  /** Return the sentence “Apple attends to phone: 0.5312”, with one or several keys. */
  #sentence(row, columns) {
    const word = (i) => h("strong", {}, h("bdi", {}, shorten(this.encoded.parts[i])));
    return [
      word(row), this.verb,
      ...columns.flatMap((column, i) => [i ? ", " : "", word(column), `: ${this.#weight(row, column)}`]),
      columns.length > 1 && this.name.endsWith("each head") ? " (mean of heads)" : "",
    ];
  }
}

/** The maximum number of words of a table. */
const MAX_TABLE_WORDS = 60;

/** The weights of the chosen head as a table, which the reader can copy. */
export class WeightTable {
  constructor() {
    this.content = h("div", {});
    this.copied = h("span", { role: "status", class: "status" });
    this.element = h("details", { class: "card numbers", ontoggle: () => this.#fill() },
      h("summary", {}, "The weights as a table"), this.content);
  }

  /** Set the weights; the table is built when it is opened. */
  show(words, columns, rows, name) {
    if (this.rows === rows && this.name === name) return;
    Object.assign(this, { words, columns, rows, name, filled: false });
    this.#fill();
  }

  #fill() {
    if (!this.element.open || this.filled || !this.rows) return;
    this.filled = true;
    this.copied.textContent = "";
    const { words, columns, rows, name } = this;
    if (words.length > MAX_TABLE_WORDS) {
      this.content.replaceChildren(h("p", {}, `The table is limited to ${MAX_TABLE_WORDS} words. Save the JSON instead.`));
      return;
    }
    this.content.replaceChildren(
      h("div", { class: "buttons" },
        quietButton("Copy as tab-separated text", () => this.#copy()), this.copied),
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of weights" }, numberTable({
        caption: `${name}: query words in rows, key words in columns`,
        columns,
        rows: words,
        cells: Array.from(rows, (row) => Array.from(row, (weight) => h("td", { class: "number" }, decimals(weight, 3)))),
      })),
    );
  }

  async #copy() {
    const rows = [["", ...this.columns], ...this.rows.map((row, i) => [this.words[i], ...row])];
    const done = await copyText(separatedText(rows, "\t", "\n"));
    this.copied.textContent = done ? "Copied." : "The browser blocks copying. Select the table and copy it.";
  }
}
