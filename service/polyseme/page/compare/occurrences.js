/** The occurrences that are compared, each a sentence and a word in it, and the tokens of sentences. */

import { fetchText } from "../client.js";
import { modelAndCase } from "../elements.js";

/** How many can be compared here; the service takes more than fit on the screen. */
export const FEWEST = 2, MOST = 8;

/** Occurrences `{text, word, nth}` as the address has them. */
export function formatOccurrences(occurrences) {
  return JSON.stringify(occurrences.map(({ text, word, nth }) => [text, word, nth]));
}

/** The occurrences of an address, or null when it has none that can be shown. One alone gets an empty second. */
export function parseOccurrences(json) {
  let rows;
  try {
    rows = JSON.parse(json);
  } catch {
    return null;
  }
  const isOccurrence = (row) => {
    if (!Array.isArray(row) || row.length < 2 || row.length > 3) return false;
    const [text, word, nth = 0] = row;
    return typeof text === "string" && typeof word === "string" && Number.isSafeInteger(nth) && nth >= 0;
  };
  if (!Array.isArray(rows) || !rows.length || rows.length > MOST || !rows.every(isOccurrence)) return null;
  const missing = Array.from({ length: Math.max(FEWEST - rows.length, 0) }, () => ["", ""]);
  return [...rows, ...missing].map(([text, word, nth = 0]) => ({ text, word, nth }));
}

/** The index of an occurrence's token, found as the service finds it, or −1. */
export function tokenIndex({ word, nth }, tokens) {
  const matching = (test) => tokens.flatMap((token, i) => (test(token.text) ? [i] : []));
  const exact = matching((text) => text === word);
  const found = exact.length ? exact : matching((text) => equalWords(text, word));
  return found[nth] ?? -1;
}

/** The word and the count, `{word, nth}`, that name token i of a sentence. */
export function wordAt(i, tokens) {
  const { text } = tokens[i];
  return { word: text, nth: tokens.slice(0, i).filter((token) => token.text === text).length };
}

const equalWords = (a, b) => a.toLowerCase() === b.toLowerCase();

/**
 * The word to compare in an edited sentence: the chosen one while it is there, else the one in its place,
 * else a word of another occurrence, else the longest. `before` is the tokens before the edit.
 */
export function keepWord(chosen, tokens, { before = [], others = [] } = {}) {
  if (!tokens.length) return chosen;
  const lengths = tokens.map(({ text }) => [...text].length);
  const index = [
    tokenIndex(chosen, tokens),
    tokenIndex({ ...chosen, nth: 0 }, tokens),
    replacedIndex(chosen, tokens, before),
    tokens.findIndex(({ text }) => others.some((word) => equalWords(text, word))),
    lengths.indexOf(Math.max(...lengths)),
  ].find((place) => place >= 0);
  return wordAt(index, tokens);
}

/** The index of the chosen word when no other word of the sentence changed, else −1. */
function replacedIndex(chosen, tokens, before) {
  const index = tokenIndex(chosen, before);
  const onlyThis = tokens.length === before.length
    && tokens.every(({ text }, i) => i === index || text === before[i].text);
  return onlyThis ? index : -1;
}

/** The most sentences whose tokens are kept. */
const KEPT = 200;

/** The tokens of sentences, as the service finds them. Each sentence is requested once. */
export class OccurrenceTokens {
  constructor() {
    this.known = new Map();
    this.aborters = new Map();
  }

  /**
   * The tokens of each text, null for a text that the service refuses; undefined when the same `caller`
   * asked again in the meantime.
   */
  async load(texts, settings, caller) {
    const missing = [...new Set(texts)].filter((text) => text.trim() && !this.known.has(keyOf(text, settings)));
    this.aborters.get(caller)?.abort();
    if (missing.length) {
      const aborter = new AbortController();
      const { signal } = aborter;
      this.aborters.set(caller, aborter);
      try {
        const body = { input: missing, include: [], ...modelAndCase(settings) };
        const { results } = JSON.parse(await fetchText("v1/encode", body, signal));
        if (signal.aborted) return undefined;
        missing.forEach((text, i) => this.known.set(keyOf(text, settings), results[i].tokens));
      } catch (error) {
        if (signal.aborted || error.name === "AbortError") return undefined;
        // The comparison fails for the same reason, and shows it.
      }
    }
    this.#forgetOldest(texts, settings);
    return texts.map((text) => this.known.get(keyOf(text, settings)) ?? null);
  }

  /** The index of the token that starts at a code point of a sentence; −1 when it is not known. */
  indexAt(text, start, settings) {
    const tokens = this.known.get(keyOf(text, settings)) ?? [];
    return tokens.findIndex((token) => token.start === start);
  }

  /** Forget the oldest sentences, except those in use. */
  #forgetOldest(texts, settings) {
    const used = new Set(texts.map((text) => keyOf(text, settings)));
    for (const key of this.known.keys()) {
      if (this.known.size <= KEPT) return;
      if (!used.has(key)) this.known.delete(key);
    }
  }
}

const keyOf = (text, { model, case: letterCase }) => JSON.stringify([text, model, letterCase]);
