/** The chosen token: the words that contribute most to it, and its static and contextual vectors as strips of cells. */

import { ranked } from "./sentence.js";
import { bars } from "../bars.js";
import { scaleBoxes, signedColor, theme } from "../colors.js";
import { changeDetector, h, pointAt, s, svgDrawing } from "../elements.js";
import { Figure, Readout } from "../figure.js";
import { decimals, short, shorten } from "../text.js";

const { max } = globalThis.d3;

/** The maximum number of keys that are listed. */
const MAX_KEYS = 8;

export class TokenFigures {
  constructor(page) {
    this.page = page;
    this.keys = new Figure("polyseme-contributions", "Gets most from");
    this.vectors = new Figure("polyseme-vectors", "Static and contextual vector");
    this.readout = new Readout();
    this.changed = changeDetector();
    this.shift = h("p", { class: "shift" });
    this.compare = h("a", {}, "Compare this occurrence…");
    this.vectors.body.before(this.shift, this.readout.element);
    this.vectors.body.after(h("p", { class: "compare-link" }, this.compare));
  }

  /** Show a token of a sentence that was encoded with the model and case of the state. */
  show(encoded, token, { layer, model, case: letterCase }) {
    const other = encoded.otherOccurrence(token);
    // Compare needs two occurrences. If there is only one, the reader types the other.
    const occurrences = [encoded.occurrence(token), other === null ? ["", "", 0] : encoded.occurrence(other)];
    this.compare.href = this.page.address("compare", { occurrences: JSON.stringify(occurrences), model, case: letterCase });
    const chosen = encoded.layer(layer);
    if (!this.changed(encoded, token, chosen, theme(), this.keys.width(), this.vectors.width())) return;
    this.#drawKeys(encoded, token, chosen);
    this.#drawVectors(encoded, token);
  }

  #drawKeys(encoded, token, layer) {
    const word = shorten(encoded.words[token]);
    const row = encoded.weights(layer, "contributions")[token];
    const rows = ranked(row).slice(0, MAX_KEYS).filter((i) => row[i] > 0).map((i) => ({ word: encoded.words[i], value: row[i] }));
    this.keys.heading.replaceChildren(h("bdi", {}, word), " gets most from");
    this.keys.caption.textContent = encoded.layers > 1
      ? `Layer ${layer}, all heads: each word's exact contribution to the word's vector plus the output of attention.`
      : "All heads: each word's exact contribution to the contextual vector.";
    this.keys.show(bars(rows, {
      width: this.keys.width(),
      name: `${word} gets most from ${rows.map((key) => `${shorten(key.word)}: ${short(key.value)}`).join(", ")}`,
    }));
  }

  #drawVectors(encoded, token) {
    const word = shorten(encoded.words[token]);
    const fixed = encoded.statics[token], contextual = encoded.contextual[token];
    this.vectors.heading.replaceChildren(h("bdi", {}, word), ": static and contextual vector");
    this.vectors.caption.textContent = `Each cell is one of the ${fixed.length} dimensions.`
      + " Both vectors are divided by their norms and share one color scale; a zero vector stays zero.";
    const known = fixed.some((number) => number !== 0);
    this.shift.replaceChildren(...(known
      ? [h("strong", {}, `Shift ${short(1 - cosine(fixed, contextual))}`),
        ": 1 − cosine of the two vectors. At 0, the context does not change the direction."]
      : ["This word has no static vector. Its contextual vector comes from the known words of the sentence, if any."]));
    const { drawing, slider } = strips(
      [{ name: "static", vector: unit(fixed) }, { name: "contextual", vector: unit(contextual) }],
      {
        width: this.vectors.width(),
        label: `Dimensions of ${word}`,
        onpoint: (sentence, announce) => this.readout.show(sentence, announce),
      },
    );
    this.readout.show(pointAt("a dimension", "use the arrow keys"), false);
    this.vectors.show(drawing, slider);
  }
}

/** Return a vector divided by its norm; a zero vector stays zero. */
function unit(vector) {
  const norm = Math.hypot(...vector);
  return norm ? vector.map((number) => number / norm) : vector;
}

/** Return the cosine of two vectors; 0 if one is zero. */
function cosine(a, b) {
  let product = 0, squareA = 0, squareB = 0;
  for (let i = 0; i < a.length; i += 1) {
    product += a[i] * b[i];
    squareA += a[i] * a[i];
    squareB += b[i] * b[i];
  }
  return squareA && squareB ? product / Math.sqrt(squareA) / Math.sqrt(squareB) : 0;
}

const STRIP = 34;
const LABEL = 18;
const FOOT = 34;

/**
 * Draw `[{name, vector}]` as strips, `width` pixels wide. Return the `drawing`, and a `slider` over it for the
 * pointer and the arrow keys. `onpoint(sentence, announce)` is called with a description of the dimension;
 * `announce` is false if the focused slider announces it.
 */
function strips(vectors, { width, label, onpoint }) {
  const largest = max(vectors, ({ vector }) => max(vector, Math.abs)) || 1;
  const size = vectors[0].vector.length;
  const stripsHeight = vectors.length * (LABEL + STRIP), height = stripsHeight + FOOT;
  const cell = width / size;
  const drawing = svgDrawing(
    "strips",
    width,
    height,
    { "aria-hidden": "true" },
    vectors.flatMap(({ name, vector }, i) => {
      const y = i * (LABEL + STRIP);
      return [
        s("text", { x: 0, y: y + LABEL / 2, "dominant-baseline": "central" }, name),
        ...Array.from(vector, (number, j) => s("rect", {
          x: j * cell, y: y + LABEL, width: cell, height: STRIP - 6, fill: signedColor(number, largest),
          "shape-rendering": "crispEdges",
        })),
      ];
    }),
    colorScale(stripsHeight + 12, Math.min(120, width / 3), largest),
  );
  const describe = (at) => `Dimension ${at}: ${vectors
    .map(({ name, vector }) => `${name} ${decimals(vector[at], 4)}`).join(", ")}`;
  return { drawing, slider: dimensionSlider({ size, cell, height: stripsHeight, label, describe, onpoint }) };
}

function colorScale(y, length, largest) {
  const end = decimals(largest, 2), left = 44;
  return [
    s("text", { class: "muted", x: 0, y: y + 5, "dominant-baseline": "central" }, `−${end}`),
    scaleBoxes(left, y, length, (fraction) => signedColor(2 * fraction - 1))
      .map((box) => s("rect", { ...box, "shape-rendering": "crispEdges" })),
    s("text", { class: "muted", x: left + length + 6, y: y + 5, "dominant-baseline": "central" }, end),
  ];
}

function dimensionSlider({ size, cell, height, label, describe, onpoint }) {
  const mark = h("div", { class: "mark", "aria-hidden": "true", hidden: true });
  const element = h(
    "div",
    {
      class: "dimensions", role: "slider", tabindex: "0", "aria-label": label,
      "aria-valuemin": "0", "aria-valuemax": size - 1, "aria-valuenow": 0, "aria-valuetext": describe(0),
    },
    mark,
  );
  let at = 0;
  const move = (to) => {
    at = Math.min(Math.max(to, 0), size - 1);
    mark.hidden = false;
    element.setAttribute("aria-valuenow", at);
    element.setAttribute("aria-valuetext", describe(at));
    mark.style.left = `${at * cell}px`;
    mark.style.width = `${Math.max(cell, 2)}px`;
    onpoint(describe(at), document.activeElement !== element);
  };
  element.style.height = `${height}px`;
  const follow = ({ clientX }) => {
    const { left, width } = element.getBoundingClientRect();
    move(Math.floor(((clientX - left) / width) * size));
  };
  element.addEventListener("pointermove", follow);
  element.addEventListener("pointerdown", follow); // a tap does not move
  element.addEventListener("keydown", (event) => {
    const to = {
      ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1,
      PageUp: at + 10, PageDown: at - 10, Home: 0, End: size - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  return element;
}
