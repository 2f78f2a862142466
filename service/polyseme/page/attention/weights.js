/** The attention weights of one layer: a heatmap or lines, and a table. */

import { HeadControls, headName, Thumbnails } from "./heads.js";
import { heatmapDrawing, HeatmapCursor } from "./heatmap.js";
import { Lines } from "./lines.js";
import { isZero, ranked } from "./sentence.js";
import { theme } from "../colors.js";
import { changeDetector, h, pointAt } from "../elements.js";
import { Figure } from "../figure.js";
import { decimals, shorten } from "../text.js";

/** The maximum number of keys that the readout names for a query token. */
const MAX_KEYS = 3;

/** The figure of the chosen head, and the card to choose a head. */
export class AttentionFigure {
  constructor(page) {
    this.page = page;
    this.heads = new HeadControls(page);
    this.thumbnails = new Thumbnails((layer, head) =>
      page.update({ layer: String(layer), head: String(head) }));
    this.chooser = h("section", { class: "card chooser", "aria-label": "Layers and heads" },
      h("h3", {}, "Layers and heads"),
      h("p", { class: "muted" }, "Each picture has a scale of its own. The name of a head says what it attends to on average."),
      this.thumbnails.element);
    this.figure = new Figure("polyseme-attention", "Attention", "query words: rows, or left; key words: columns, or right");
    this.figure.tools.append(...this.heads.controls);
    /** Describes the element under the pointer, or chosen by the keyboard. */
    this.readout = h("p", { class: "readout", role: "status" });
    this.figure.body.before(this.readout);
    this.thumbnailsChanged = changeDetector();
    this.figureChanged = changeDetector();
  }

  /** Show an encoded sentence; `state` has the layer, head and picture, `token` is the chosen token. */
  show(encoded, state, token) {
    const layer = encoded.layer(state.layer), head = encoded.head(state.head), lines = state.picture === "lines";
    Object.assign(this, { encoded, layer, token, weights: encoded.weights(layer, head) });
    if (this.thumbnailsChanged(encoded, theme())) this.thumbnails.draw(encoded);
    this.thumbnails.choose(layer, head);
    this.heads.show(encoded, { layer, head, lines });
    this.weightsName = headName(encoded, layer, head);
    this.figure.heading.textContent = this.weightsName;
    this.contributes = head === "contributions";
    this.columns = this.contributes ? encoded.parts : encoded.words;
    this.readout.classList.toggle("several", lines);
    if (lines) this.#showLines(state);
    else this.#showHeatmap(state);
  }

  #showHeatmap(state) {
    if (this.figureChanged("heatmap", this.weights, theme(), this.figure.width())) this.#drawHeatmap();
    this.cursor.show(this.encoded.cell(state, this.token, this.weights), this.token);
  }

  #drawHeatmap() {
    const { drawing, layout, highlight } = heatmapDrawing(this.columns, this.weights, this.figure.width());
    this.figure.caption.textContent = `${this.#explanation("Each row is a query word, each column a key word")} ${
      pointAt("a cell", "use the arrow keys")}`;
    const pick = ({ row, column }) => ({ row: String(row), column: String(column) });
    this.cursor = new HeatmapCursor({
      layout,
      name: `Heatmap of ${this.contributes ? "contributions" : "attention"} between ${this.encoded.words.length} words. ${this.weightsName}`,
      onpoint: ({ row, column }, announce) => {
        highlight(row, column);
        this.#read(this.#sentence(row, [column]), announce);
      },
      onmove: (at) => this.page.update(pick(at)),
      onpick: (at) => this.page.update({ word: String(at.row), ...pick(at) }),
    });
    this.figure.show(drawing, this.cursor.element);
  }

  /** Explain the numbers; `layout` says where query and key words are. */
  #explanation(layout) {
    const { encoded, layer } = this;
    const diagonal = encoded.isOthersOnly(layer)
      ? ` In this layer a word attends to no occurrence of itself, so in its row ${encoded.hasRepeated ? "their columns are" : "its own column is"} 0: `
        + "what it keeps of itself is “the word itself”." : "";
    const before = layer ? ` In this layer, a word is its vector from layer ${layer - 1}, which other words are part of.` : "";
    if (!this.contributes) {
      return `${layout}. A weight says how much a head attends to a word; the weights of a word sum to 1.${
        diagonal.replace(/:.*/, ".")}${before}`;
    }
    return `A contribution is a word's exact share in the ${encoded.layers > 1 ? "sum of the layer's input and its attention" : "contextual vector"}, all heads together; a weight only says how much one head attends to it. The shares of a vector sum to 1${
      this.weights.some(isZero) ? ", those of a zero vector to 0: no word that it attends to is known" : ""}; a negative one pulls it away.${diagonal}${before}`;
  }

  #showLines(state) {
    // Without a chosen token, the lines of all tokens are shown.
    this.chosen = state.word === "" ? null : this.token;
    if (this.figureChanged("lines", this.weights, theme(), this.figure.width())) this.#drawLines();
    this.lines.choose(this.chosen, this.token);
    this.#highlightLines(this.pointed);
  }

  #drawLines() {
    const what = this.contributes ? "contribution" : "weight";
    this.lines = new Lines(this.encoded.words, this.columns, this.weights, {
      width: this.figure.width(),
      name: `Query words. ${this.weightsName}`,
      onpoint: (row) => this.#highlightLines(row),
      // Choosing the same token again clears the choice.
      onpick: (row) => this.page.update({ word: row === this.chosen ? "" : String(row) }),
    });
    this.figure.caption.textContent = `${this.#explanation("Query words are on the left, key words on the right")
    } A stronger line is a larger ${what}${this.lines.hasNegative ? ", a dashed one is negative" : ""}; below 0.01, none is drawn.${
      this.lines.drawsAll ? "" : " In a sentence of this length, only the lines of one word are drawn."}`;
    this.pointed = null;
    this.figure.show(this.lines.drawing);
  }

  /** Show the lines of the pointed row, else of the chosen row, else of all rows. */
  #highlightLines(pointed) {
    this.pointed = pointed;
    const row = pointed ?? this.chosen;
    this.lines.highlight(row);
    if (row === null) this.#read([pointAt("a word on the left", "use the arrow keys")], false);
    else this.#read(this.#sentence(row, ranked(this.weights[row]).slice(0, MAX_KEYS)));
  }

  /** Show text and elements above the drawing. `announce` is false for instructions. */
  #read(parts, announce = true) {
    const line = h("p", {}, parts);
    if (line.textContent === this.readout.textContent) return;
    this.readout.setAttribute("aria-live", announce ? "polite" : "off");
    this.readout.replaceChildren(...line.childNodes);
  }

  /** Return the sentence “Apple attends to phone: 0.5312”, with one or several keys. */
  #sentence(row, columns) {
    const word = (i) => h("strong", {}, h("bdi", {}, shorten(this.encoded.parts[i])));
    return [
      word(row), this.contributes ? " gets from " : " attends to ",
      ...columns.flatMap((column, i) => [i ? ", " : "", word(column), `: ${decimals(this.weights[row][column], 4)}`]),
    ];
  }
}
