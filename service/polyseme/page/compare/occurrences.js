/** The compared occurrences, each a word in a sentence, and the tokens of sentences. */

import { fetchText } from "../client.js";
import { modelAndCase } from "../elements.js";

/** The limits of this view; the service compares more than fit on the screen. */
export const MIN_OCCURRENCES = 2, MAX_OCCURRENCES = 8;

/** Return occurrences `{text, word, nth}` in the form of the address. */
export function formatOccurrences(occurrences) {
  return JSON.stringify(occurrences.map(({ text, word, nth }) => [text, word, nth]));
}

/** Parse the occurrences in an address; null if they are not valid. A single one is followed by an empty one. */
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
  if (!Array.isArray(rows) || !rows.length || rows.length > MAX_OCCURRENCES || !rows.every(isOccurrence)) return null;
  const missing = Array.from({ length: Math.max(MIN_OCCURRENCES - rows.length, 0) }, () => ["", ""]);
  return [...rows, ...missing].map(([text, word, nth = 0]) => ({ text, word, nth }));
}

/** Return the index of the token of an occurrence, or −1, as `find_token` of the service does. */
export function tokenIndex({ word, nth }, tokens) {
  const matching = (form) => tokens.flatMap(({ text }, i) => (form(text) === form(word) ? [i] : []));
  const exact = matching(singleSpaced);
  return (exact.length ? exact : matching(folded))[nth] ?? -1;
}

/** Return the `{word, nth}` of token i of a sentence. */
export function wordAt(i, tokens) {
  const { text } = tokens[i];
  const same = (token) => singleSpaced(token.text) === singleSpaced(text);
  return { word: text, nth: tokens.slice(0, i).filter(same).length };
}

const IGNORABLE = /(?!\p{White_Space})[\p{Default_Ignorable_Code_Point}\p{Cc}]/gu;

/** Return the words of a text with one space between them, without ignorable code points. */
const singleSpaced = (text) => text.replaceAll("\u200b", " ").replaceAll(IGNORABLE, "")
  .split(/\p{White_Space}+/u).filter(Boolean).join(" ");

/**
 * Return a text such that texts with equal case folding, Python's `casefold`, are equal. Upper case maps ß to SS as
 * case folding does; it also maps ı to I, which case folding does not.
 */
const folded = (text) => singleSpaced(text).replaceAll(/[^ı]+/gu, (part) => part.toLowerCase().toUpperCase());

/**
 * Return the word to compare in an edited sentence: the chosen word if the sentence contains it, else the
 * word that replaced it, else a word of another occurrence (`others`), else the longest word. `before` has the
 * tokens of the sentence before the edit.
 */
export function keepWord(chosen, tokens, { before = [], others = [] } = {}) {
  if (!tokens.length) return chosen;
  const lengths = tokens.map(({ text }) => [...text].length);
  const index = [
    tokenIndex(chosen, tokens),
    tokenIndex({ ...chosen, nth: 0 }, tokens),
    replacedIndex(chosen, tokens, before),
    tokens.findIndex(({ text }) => others.some((word) => folded(text) === folded(word))),
    lengths.indexOf(Math.max(...lengths)),
  ].find((i) => i >= 0);
  return wordAt(index, tokens);
}

/** Return the index of the chosen word if no other word of the sentence changed, else −1. */
function replacedIndex(chosen, tokens, before) {
  const index = tokenIndex(chosen, before);
  const onlyIt = tokens.length === before.length
    && tokens.every(({ text }, i) => i === index || text === before[i].text);
  return onlyIt ? index : -1;
}

/** The maximum number of sentences whose tokens are cached. */
const MAX_CACHED = 200;

/** A cache of the service's tokens of sentences. */
export class OccurrenceTokens {
  constructor() {
    this.known = new Map();
    this.aborters = new Map();
  }

  /**
   * Return the tokens of each text, null for an empty text; undefined if the same `caller` called again in the
   * meantime. One request has all new texts: if it fails, each of them gets null.
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
        // In Compare, the request of the comparison fails with the same error and shows it.
      }
    }
    this.#evictOldest(texts, settings);
    return texts.map((text) => this.known.get(keyOf(text, settings)) ?? null);
  }

  /** Return the index of the token that starts at a code point of a sentence; −1 if no cached token does. */
  indexAt(text, start, settings) {
    const tokens = this.known.get(keyOf(text, settings)) ?? [];
    return tokens.findIndex((token) => token.start === start);
  }

  /** Remove the oldest sentences from the cache, except those in use. */
  #evictOldest(texts, settings) {
    const used = new Set(texts.map((text) => keyOf(text, settings)));
    for (const key of this.known.keys()) {
      if (this.known.size <= MAX_CACHED) return;
      if (!used.has(key)) this.known.delete(key);
    }
  }
}

const keyOf = (text, { model, case: letterCase }) => JSON.stringify([text, model, letterCase]);
