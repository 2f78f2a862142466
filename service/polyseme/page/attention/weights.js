/** The attention weights of one layer: a heatmap or lines, and a table. */

import { HeatmapCursor, heatmapDrawing, largest, pixels } from "./heatmap.js";
import { isZero, ranked } from "./sentence.js";
import { readJson } from "../client.js";
import { categoryColor, theme } from "../colors.js";
import {
  changeDetector, h, labeled, numbered, pointAt, pressable, quietButton, rovingTabindex, s, selectBox, setOptions, svgDrawing,
} from "../elements.js";
import { Figure } from "../figure.js";
import { decimals, fitTexts, maxTextWidth, short, shorten } from "../text.js";

/** What the heads of the models attend to: names for each layer, which `docs/quality.md` explains. */
const HEADS = await readJson("attention/heads.json");

/** Return the name of a head of a layer; `head` is a number, `mean` or `contributions`. */
function headName({ model }, layer, head) {
  if (head === "contributions") return `Layer ${layer}, contributions`;
  return head === "mean" ? `Layer ${layer}, mean of heads` : `Layer ${layer}, head ${head}${attendsTo(model, layer, head)}`;
}

/** Return what a head attends to, as the documentation names it, in brackets; "" for other models. */
const attendsTo = (model, layer, head) => (HEADS[model] ? ` (${HEADS[model][layer][head]})` : "");

/** The controls of the figure: picture, layer and head. */
class HeadControls {
  constructor(page) {
    this.pictures = ["Heatmap", "Lines"].map((name) => quietButton(name, () => page.update({ picture: name.toLowerCase() })));
    this.layer = selectBox([], "0", (layer) => page.update({ layer }));
    this.head = selectBox([], "contributions", (head) => page.update({ head }));
    this.layerField = labeled("Layer", this.layer);
    this.controls = [
      h("div", { class: "buttons", role: "group", "aria-label": "Picture" }, this.pictures),
      this.layerField,
      labeled("Head", this.head),
    ];
  }

  /** Update the controls. */
  show({ model, layers, heads }, { layer, head, lines }) {
    this.pictures.forEach((button, i) => button.setAttribute("aria-pressed", String(Boolean(i) === lines)));
    const options = [
      ["contributions", "contributions"],
      ["mean", "mean of heads"],
      ...numbered(heads).map(([number]) => [number, number + attendsTo(model, layer, number)]),
    ];
    setOptions(this.layer, numbered(layers), String(layer));
    setOptions(this.head, options, String(head));
    this.layerField.hidden = layers < 2;
  }
}

/** The side of a thumbnail in pixels; in a longer sentence, a pixel has the mean color of several words. */
const MAX_SIDE = 56;

/** Thumbnails to choose from: a row for each layer, with contributions, the mean of its heads and each head. */
class Thumbnails {
  constructor(page) {
    this.page = page;
    this.element = h("div", { class: "thumbnails", role: "group", "aria-label": "Layers and heads" });
    this.setStop = rovingTabindex(this.element, () => this.across);
  }

  draw(encoded) {
    const heads = ["contributions", "mean", ...Array.from({ length: encoded.heads }, (_, i) => i)];
    this.across = heads.length;
    this.buttons = [];
    this.element.style.gridTemplateColumns = `max-content minmax(2.6rem, max-content) repeat(${heads.length - 1}, minmax(1.5rem, 3.5rem))`;
    this.element.replaceChildren(
      h("span", {}),
      ...["contri\u00adbutions", ...heads.slice(1)].map((head) => h("span", { class: "head" }, head)),
      ...Array.from({ length: encoded.layers }, (_, layer) => [
        h("span", { class: "layer" }, `Layer ${layer}`),
        ...heads.map((head) => this.#button(encoded, layer, head)),
      ]).flat(),
    );
  }

  #button(encoded, layer, head) {
    const canvas = pixels(encoded.weights(layer, head));
    if (canvas.width > MAX_SIDE) canvas.style.imageRendering = "auto";
    const name = headName(encoded, layer, head);
    const button = h(
      "button",
      {
        type: "button", class: "thumbnail", "aria-label": name, title: name,
        onclick: () => this.page.update({ layer: String(layer), head: String(head) }),
      },
      canvas,
    );
    this.buttons.push({ button, layer, head });
    return button;
  }

  /** Mark the chosen head. */
  choose(layer, head) {
    for (const { button, ...at } of this.buttons) {
      button.setAttribute("aria-pressed", String(at.layer === layer && at.head === head));
    }
    this.setStop(this.element.querySelector("[aria-pressed=true]"));
  }
}

const ROW = 20, TOP = 26, FONT = 12;
/** The space for the weights beside the key tokens. */
const MARKS = 40;
/** The minimum weight that gets a line and a number. */
const MIN_WEIGHT = 0.01;
/** The maximum number of words for which the lines of all query tokens are drawn at once. */
const MAX_WORDS = 150;

const middle = (i) => TOP + (i + 0.5) * ROW;

/** The drawing of the lines from words to columns; the query tokens are buttons, one tab stop. */
class Lines {
  /**
   * Draw the weights `rows`, `width` pixels wide, with the accessible name `name`. `onpoint(row)` is called for the pointed or
   * focused query token, or with null; `onpick(row)` for a chosen one.
   */
  constructor(words, columns, rows, { width, name, onpoint, onpick }) {
    Object.assign(this, { rows, largest: largest(rows) });
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

/** The maximum number of keys that the readout names for a query token. */
const MAX_KEYS = 3;

/** The figure of the chosen head, and the card to choose a head. */
export class AttentionFigure {
  constructor(page) {
    this.page = page;
    this.heads = new HeadControls(page);
    this.thumbnails = new Thumbnails(page);
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
