/** Words in two to eight sentences, before and after context. */

import { CompareForm, emptySaid } from "./form.js";
import { EXAMPLES } from "./examples.js";
import { lettered } from "./notes.js";
import { similarityTables } from "./tables.js";
import { h } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { Figure } from "../frame/figure.js";
import { flatMap } from "../figures/flat_map.js";
import { mapPoints } from "../figures/map_points.js";
import { similarity } from "../figures/similarity.js";
import { manyOf } from "../frame/many_field.js";
import { percent } from "../frame/numbers.js";
import { modelAndCase } from "../frame/model_and_case.js";
import { occurrenceCard } from "./occurrence_card.js";
import { parsed } from "./occurrences.js";
import { SentenceTokens } from "./occurrence_tokens.js";
import { parted } from "./parted.js";
import { VIEWS } from "../views.js";

const FIRST = EXAMPLES[0][1];
const POINTED = "Point at a mark to read its name, or go to the map with Tab and on with the arrow keys.";

class Compare {
  constructor(page) {
    this.page = page;
    this.tokens = new SentenceTokens();
    this.state = VIEWS.compare.defaults;
    this.form = new CompareForm(page, (texts) => this.tokens.of(texts, this.state, "form"));
    this.mended = h("p", { class: "muted", role: "status" });
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-compare", this.results);
    this.matrices = new Figure("polyseme-compare-similarity", "How alike they are");
    this.notes = h("ul", { class: "notes" });
    this.map = new Figure("polyseme-compare-map", "Where context takes them");
    this.pointed = h("output", { class: "pointed" });
    this.map.element.append(h("p", { class: "pointing" }, this.pointed, h("span", {}, POINTED)));
    this.heard = h("p", { class: "heard", role: "status" });
    this.cards = h("div", { class: "occurrence-cards" });
    this.results.append(
      this.matrices.element, this.notes, this.map.element, this.cards, this.exchange.source,
    );
    this.element = h(
      "section",
      { "aria-label": "Compare" },
      h(
        "div",
        { class: "intro" },
        h("h2", {}, "Compare"),
        h("p", {}, "A word has one static vector, whatever the sentence. Attention makes of it a contextual",
          " vector in each sentence, and so tells its meanings apart. Choose an example, or type",
          " sentences and press the word of each that is compared."),
      ),
      this.form.element,
      this.mended,
      this.heard,
      this.exchange.problem,
      this.results,
    );
  }

  async show(state) {
    this.state = state;
    const said = parsed(state.occurrences);
    this.mended.textContent = said ? "" : "The address names no occurrences that can be shown; this is the first example.";
    const occurrences = said ?? parsed(FIRST);
    this.form.show(occurrences, state);
    await Promise.all([this.#words(occurrences, state), this.#answer(occurrences, state)]);
  }

  async #words(occurrences, state) {
    const tokens = await this.tokens.of(occurrences.map(({ text }) => text), state, "view");
    if (!tokens || state !== this.state) return;
    this.form.offer(tokens);
    this.linked?.();
  }

  async #answer(occurrences, state) {
    const empty = emptySaid(occurrences);
    if (empty) {
      this.said = null;
      this.heard.textContent = "";
      return this.exchange.rest(empty);
    }
    const answer = await this.exchange.ask("v1/compare", question(occurrences, state));
    if (answer && state === this.state) this.#draw(answer, occurrences);
  }

  #draw(answer, occurrences) {
    const words = answer.occurrences.map(({ token }) => token.text);
    const panels = [["Static", answer.static_similarity], ["In context", answer.contextual_similarity]];
    this.matrices.caption.textContent = parted(answer);
    this.matrices.show(similarity(panels, words, this.matrices.width()), similarityTables(panels, words, this.#open()));
    this.notes.replaceChildren(...lettered(answer).map((note) => h("li", {}, note)));
    this.notes.hidden = !answer.notes.length;
    this.#drawMap(answer, words);
    this.linked = () => this.#drawCards(answer, occurrences);
    this.linked();
    this.#say(answer);
    this.exchange.drawn();
  }

  /** A new answer is heard, one that is drawn again not. */
  #say(answer) {
    if (answer === this.said) return;
    this.said = answer;
    this.heard.textContent = `Compared: ${this.matrices.caption.textContent}`;
  }

  /** Whether the reader has opened the tables: they stay so when they are drawn anew. */
  #open() {
    return this.matrices.body.querySelector("details")?.open;
  }

  #drawMap(answer, words) {
    const points = mapPoints(answer);
    const { map } = answer;
    this.map.caption.textContent = `Directions of the vectors, flattened onto the two axes along which they differ most; these keep ${
      percent(map.explained_variance_ratio[0] + map.explained_variance_ratio[1])} of how they differ. Contextual`
      + " vectors are where their neighbours are looked for: drawn a little towards the static one.";
    this.pointed.replaceChildren();
    if (!points.length) return this.map.show(null);
    this.map.show(flatMap(points, {
      width: this.map.width(),
      words,
      onname: (name) => { this.pointed.textContent = name; },
      onpick: (word) => { location.hash = this.#neighbours(word); },
    }));
  }

  #drawCards(answer, occurrences) {
    this.cards.replaceChildren(...answer.occurrences.map((compared, i) => {
      const { text } = occurrences[i];
      return occurrenceCard(i, compared, text, {
        word: (word) => this.#neighbours(word),
        attention: () => {
          const place = this.tokens.placeAt(text, compared.token.start, this.state);
          return place < 0 ? null : this.page.address("look", { ...modelAndCase(this.state), text, word: String(place) });
        },
      });
    }));
  }

  #neighbours(word) {
    return this.page.address("neighbours", { ...modelAndCase(this.state), word });
  }
}

function question(occurrences, state) {
  return {
    occurrences: occurrences.map(({ text, word, nth }) => ({ text, word, ...(nth && { nth }) })),
    neighbors: manyOf(state.k),
    map: true,
    ...modelAndCase(state),
  };
}

/** The view, made once. */
export const build = (page) => new Compare(page);
