/** One word of the sentence: its static vector beside its contextual one, and what it looks at. */

import { theme } from "../frame/colours.js";
import { h } from "../frame/elements.js";
import { Figure } from "../frame/figure.js";
import { bars } from "../figures/bars.js";
import { shortened } from "../figures/lettering.js";
import { strips, unit } from "../figures/strips.js";
import { cosine, short } from "../frame/numbers.js";
import { ranked } from "./reading.js";
import { Readout } from "./readout.js";

const TOP = 8;

export class ChosenWord {
  constructor(page) {
    this.page = page;
    this.looks = new Figure("polyseme-looks-at", "Looks most at");
    this.vectors = new Figure("polyseme-vectors", "Static beside contextual");
    this.readout = new Readout();
    this.shift = h("p", { class: "shift" });
    this.compare = h("a", {}, "Compare this occurrence…");
    this.vectors.body.before(this.shift, this.readout.element);
    this.vectors.body.after(h("p", { class: "onward" }, this.compare));
  }

  /** Show a token of a reading, which was read as the state says. */
  show(reading, token, { model, case: cases }) {
    const compared = occurrences(reading, token);
    this.compare.href = this.page.address("compare", { occurrences: compared, model, case: cases });
    const now = [reading, token, theme(), this.looks.width(), this.vectors.width()];
    if (this.drawn && now.every((value, i) => value === this.drawn[i])) return;
    this.drawn = now;
    this.#drawLooks(reading, token);
    this.#drawVectors(reading, token);
  }

  #drawLooks(reading, token) {
    const word = shortened(reading.words[token]), last = reading.layers - 1;
    const row = reading.weights(last, "mean")[token];
    const rows = ranked(row).slice(0, TOP).filter((i) => row[i] > 0).map((i) => ({ word: reading.words[i], value: row[i] }));
    this.looks.heading.replaceChildren(h("bdi", {}, word), " looks most at");
    this.looks.caption.textContent = reading.layers > 1
      ? `Layer ${last}, the last, mean of heads.` : "The mean of its heads.";
    this.looks.show(bars(rows, {
      width: this.looks.width(),
      name: `${word} looks most at ${rows.map((one) => `${shortened(one.word)}: ${short(one.value)}`).join(", ")}`,
    }));
  }

  #drawVectors(reading, token) {
    const word = shortened(reading.words[token]);
    const statics = reading.statics[token], contextual = reading.contextual[token];
    this.vectors.heading.replaceChildren(h("bdi", {}, word), ": static beside contextual");
    this.vectors.caption.textContent = "One cell for each of the"
      + ` ${statics.length} dimensions. Each vector is divided by its length, so that both are on one scale.`;
    const known = statics.some((number) => number !== 0);
    this.shift.replaceChildren(...(known
      ? [h("strong", {}, `Shift ${short(1 - cosine(statics, contextual))}`),
        ": 1 − the cosine of the two. 0 means that the context has not turned the vector at all."]
      : ["This word has no static vector: what is contextual comes from the other words alone."]));
    const { drawing, cursor } = strips(
      [{ name: "static", vector: unit(statics) }, { name: "contextual", vector: unit(contextual) }],
      {
        width: this.vectors.width(),
        label: `Dimensions of ${word}`,
        onlight: (sentence, aloud) => this.readout.say(sentence, aloud),
      },
    );
    this.readout.say("Point at a dimension, or go through them with the arrows.", false);
    this.vectors.show(drawing, cursor);
  }
}

function occurrences(reading, token) {
  const twin = reading.twin(token);
  const named = (at) => [reading.text, reading.words[at], reading.nth(at)];
  // Alone there is nothing to compare it with: Compare waits for what the reader types beside it.
  return JSON.stringify([named(token), twin === null ? ["", "", 0] : named(twin)]);
}
