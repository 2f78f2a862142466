/** Who looks at whom: the heads to choose from, and the one that is chosen, in large. */

import { theme } from "../frame/colours.js";
import { h } from "../frame/elements.js";
import { Figure } from "../frame/figure.js";
import { canvasHeatmap } from "../figures/canvas_heatmap.js";
import { heatmap } from "../figures/heatmap.js";
import { HeatmapCursor } from "../figures/heatmap_cursor.js";
import { shortened } from "../figures/lettering.js";
import { links } from "../figures/links.js";
import { LookingWords } from "../figures/looking_words.js";
import { headName, Thumbnails } from "../figures/thumbnails.js";
import { decimals } from "../frame/numbers.js";
import { HeadControls } from "./heads.js";
import { ranked } from "./reading.js";
import { Readout } from "./readout.js";

const MOST_DRAWN = 150;
const REST = 150;
const SAID = 3;

export class Attention {
  constructor(page) {
    this.page = page;
    this.heads = new HeadControls(page);
    this.thumbnails = new Thumbnails((layer, head) =>
      page.go({ layer: String(layer), head: String(head) }));
    this.lacking = h("p", { class: "lacking", role: "status", hidden: true });
    this.chooser = h("section", { class: "card chooser", "aria-label": "Layers and heads" },
      h("h3", {}, "Layers and heads"),
      h("p", { class: "muted" }, "Each from 0 to its own largest weight."),
      this.lacking,
      this.thumbnails.element);
    this.figure = new Figure("polyseme-attention", "Attention");
    this.figure.tools.append(...this.heads.controls);
    this.readout = new Readout();
    this.figure.body.before(this.heads.legend, this.readout.element);
  }

  /** Show a reading as the state says; `word` is the chosen token. */
  show(reading, state, word) {
    this.#follow(reading, state);
    const layer = reading.layer(state.layer), lines = state.picture === "lines";
    const each = lines && state.head === "each";
    const head = each ? "each" : reading.head(state.head);
    Object.assign(this, { reading, word, weights: reading.weights(layer, each ? "mean" : head) });
    this.#chooser(layer, head);
    this.#lack(reading.lacking(state));
    this.heads.show(reading, { layer, head, lines, chosen: state.heads });
    this.name = each ? `Layer ${layer}, each head` : headName(layer, head);
    this.readout.element.classList.toggle("several", lines);
    if (lines) this.#lines(layer, head, state);
    else this.#heatmap(state);
  }

  /** Where the keyboard went to and the address not yet; it is no more where the address changed. */
  #follow(reading, { row, column }) {
    const same = reading === this.reading && row === this.addressed?.row && column === this.addressed.column;
    if (!same) {
      clearTimeout(this.timer);
      this.moved = null;
    }
    this.addressed = { row, column };
  }

  #chooser(layer, head) {
    if (this.#changed("painted", [this.reading, theme()])) this.thumbnails.draw(this.reading);
    this.thumbnails.choose(layer, head);
  }

  #lack(sentence) {
    this.lacking.hidden = !sentence;
    if (this.lacking.textContent !== sentence) this.lacking.textContent = sentence;
  }

  /** Whether something is to be drawn anew: not when only the cursor moves. */
  #changed(name, now) {
    const before = this[name];
    this[name] = now;
    return !before || before.length !== now.length || now.some((value, i) => value !== before[i]);
  }

  #heatmap(state) {
    const { words } = this.reading;
    const now = ["heatmap", this.weights, theme(), this.figure.width(), devicePixelRatio];
    if (this.#changed("drawn", now)) this.#drawHeatmap(words);
    this.cursor.show(this.moved ?? this.reading.cell(state, this.word, this.weights), this.word);
  }

  #drawHeatmap(words) {
    const draw = words.length > MOST_DRAWN ? canvasHeatmap : heatmap;
    const { drawing, layout, light } = draw(words, this.weights, this.figure.width());
    this.figure.heading.textContent = `Attention: ${this.name}`;
    this.figure.caption.textContent = "Each row is a word that looks, each column a word that it looks"
      + " at; a row sums to 1. Move with the pointer, or with the arrows once the picture has the focus.";
    this.cursor = new HeatmapCursor({
      layout,
      name: `Heatmap of attention between ${words.length} words. ${this.name}`,
      say: ({ row, column }) => `${shortened(words[row])} looks at ${shortened(words[column])}: ${this.#weight(row, column)}`,
      onlight: ({ row, column }, aloud) => {
        light(row, column);
        this.readout.say(this.#said(row, [column]), aloud);
      },
      onmove: (at) => this.#moved(at),
      onpick: ({ row, column }) =>
        this.page.go({ word: String(row), row: String(row), column: String(column) }),
    });
    this.#put(drawing, this.cursor.element);
  }

  /** Who was in the picture with the keyboard stays in it, though it is drawn anew. */
  #put(drawing, over) {
    const inside = this.figure.body.contains(document.activeElement);
    this.figure.show(drawing, over);
    if (inside) over.focus({ preventScroll: true });
  }

  /** The picture follows at once; the address when the reader rests, as browsers limit how often. */
  #moved(at) {
    this.moved = at;
    this.cursor.show(at, this.word);
    this.#rest();
  }

  #rest() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.page.go({ row: String(this.moved.row), column: String(this.moved.column) });
    }, REST);
  }

  #lines(layer, head, state) {
    const heads = head === "each" ? this.heads.chosen : [head];
    const now = ["lines", this.reading, theme(), this.figure.width(), layer, ...heads];
    // A word that nobody chose does not hide the lines of the others.
    this.resting = state.word === "" ? null : this.word;
    if (this.#changed("drawn", now)) this.#drawLines(layer, heads);
    this.looking.choose(this.word);
    this.#lightLines(this.lit ?? null);
  }

  #drawLines(layer, heads) {
    const { reading } = this;
    const shown = heads.map((head) => ({ head, rows: reading.weights(layer, head) }));
    const picture = links(reading.words, shown, this.figure.width());
    this.lit = null;
    this.light = picture.light;
    this.figure.heading.textContent = `Attention: ${this.name}`;
    this.figure.caption.textContent = "The words at the left look at those at the right; the stronger a"
      + " line, the greater its weight. Lines under 0.01 are left out."
      + (reading.words.length > MOST_DRAWN ? " In a sentence as long as this, only one word's lines are drawn." : "");
    this.looking = new LookingWords(reading.words, picture, {
      name: `Words that look. ${this.name}`,
      onlight: (row) => this.#lightLines(row),
      onpick: (row) => this.page.go({ word: state(row, this.resting) }),
    });
    this.#put(picture.drawing, this.looking.element);
  }

  #lightLines(row) {
    this.lit = row;
    const shown = row ?? this.resting;
    this.light(shown);
    if (shown === null) {
      this.readout.say("Point at a word at the left, or go through them with the arrows.", false);
    } else {
      this.readout.say(this.#said(shown, ranked(this.weights[shown]).slice(0, SAID)));
    }
  }

  #weight(row, column) {
    return decimals(this.weights[row][column], 4);
  }

  /** “Apple looks at phone: 0.5312”, or at several. */
  #said(row, columns) {
    const { words } = this.reading;
    const strong = (i) => h("strong", {}, h("bdi", {}, shortened(words[i])));
    return [
      strong(row), " looks at ",
      ...columns.flatMap((column, i) => [i ? ", " : "", strong(column), `: ${this.#weight(row, column)}`]),
      columns.length > 1 && this.name.endsWith("each head") ? " (mean of heads)" : "",
    ];
  }
}

/** Picking the chosen word once more lets it go. */
const state = (row, resting) => (row === resting ? "" : String(row));

