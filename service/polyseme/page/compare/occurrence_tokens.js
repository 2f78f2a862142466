/** The words of sentences, as the service cuts them. */

import { modelAndCase } from "../frame/model_and_case.js";
import { ask } from "../frame/service.js";

const KEPT = 200;

/** Sentences are asked about once; a newer question overtakes an open one of the same asker. */
export class SentenceTokens {
  constructor() {
    this.known = new Map();
    this.aborters = new Map();
  }

  /**
   * The tokens of each text, `null` where they do not come; nothing where the same asker asked
   * anew. An empty text has none, whatever the settings.
   */
  async of(texts, settings, asker) {
    const missing = [...new Set(texts)].filter((text) => text.trim() && !this.known.has(keyOf(text, settings)));
    this.aborters.get(asker)?.abort();
    if (missing.length) {
      const aborter = new AbortController();
      const { signal } = aborter;
      this.aborters.set(asker, aborter);
      try {
        const answer = JSON.parse(await ask("v1/encode", question(missing, settings), signal));
        if (signal.aborted) return undefined;
        this.#keep(missing, answer.results, settings);
      } catch (error) {
        if (signal.aborted || error.name === "AbortError") return undefined;
        // Why there are none, the refusal of the comparison says.
      }
    }
    this.#forget(texts, settings);
    return texts.map((text) => this.known.get(keyOf(text, settings)) ?? null);
  }

  /** Which token of a sentence begins at a place; −1 where that is not known. */
  placeAt(text, start, settings) {
    const tokens = this.known.get(keyOf(text, settings)) ?? [];
    return tokens.findIndex((token) => token.start === start);
  }

  #keep(texts, results, settings) {
    texts.forEach((text, i) => this.known.set(keyOf(text, settings), results[i].tokens));
  }

  /** Forget the oldest sentences but those that are in use. */
  #forget(texts, settings) {
    const used = new Set(texts.map((text) => keyOf(text, settings)));
    for (const key of this.known.keys()) {
      if (this.known.size <= KEPT) return;
      if (!used.has(key)) this.known.delete(key);
    }
  }
}

const keyOf = (text, settings) => JSON.stringify([text, settings.model, settings.case]);

const question = (input, settings) => ({
  input,
  include: [],
  ...modelAndCase(settings),
});
