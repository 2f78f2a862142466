/** The compared occurrences, each a word in a sentence, and the tokens of sentences. */

import { fetchText } from "../client.js";
import { modelAndCase } from "../elements.js";
import STOP_WORDS from "../stop-words.json" with { type: "json" };

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
export const folded = (text) => singleSpaced(text).replaceAll(/[^ı]+/gu, (part) => part.toLowerCase().toUpperCase());

const isContentWord = ({ text }) => /\p{L}/u.test(text) && !STOP_WORDS.includes(text.toLowerCase());

/** Return the longest content word of `tokens` that each of the other sentences (`others`, tokens too) has; "" if there is none. */
export function sharedWord(tokens, others) {
  const inAll = ({ text }) => others.every((sentence) => sentence.some((token) => folded(token.text) === folded(text)));
  return longestOf(tokens.filter((token) => isContentWord(token) && inAll(token)))?.text ?? "";
}

const longestOf = (tokens) => tokens.toSorted((a, b) => [...b.text].length - [...a.text].length)[0];

/**
 * Return the word to compare in an edited sentence: the chosen word if the sentence has it, else the word that replaced it
 * in the sentence before the edit (`before`), else one of the words `proposals`, else the longest content word.
 */
export function keepWord(chosen, tokens, { before = [], proposals = [] } = {}) {
  if (!tokens.length) return chosen;
  const index = [
    tokenIndex(chosen, tokens),
    tokenIndex({ ...chosen, nth: 0 }, tokens),
    replacedIndex(chosen, tokens, before),
    ...proposals.map((word) => tokenIndex({ word, nth: 0 }, tokens)),
    tokens.indexOf(longestOf(tokens.filter(isContentWord))),
  ].find((i) => i >= 0);
  return wordAt(index ?? 0, tokens);
}

/** Return the index of the chosen word if no other word of the sentence changed, else −1. */
function replacedIndex(chosen, tokens, before) {
  const index = tokenIndex(chosen, before);
  const onlyIt = tokens.length === before.length
    && tokens.every(({ text }, i) => i === index || text === before[i].text);
  return onlyIt ? index : -1;
}

/** Return whether words differ, apart from case. */
export const differ = (words) => new Set(words.map(folded)).size > 1;

/** The maximum number of sentences whose tokens are cached. */
const MAX_CACHED = 200;

/** A cache of the service's tokens of sentences. */
export class TokenCache {
  #cached = new Map();

  /** Return the tokens of each text, null for an empty text and after an error. One request has all new texts. */
  async load(texts, settings) {
    const keyOf = (text) => JSON.stringify([text, settings.model, settings.case]);
    if (this.#cached.size > MAX_CACHED) this.#cached.clear();
    const missing = [...new Set(texts)].filter((text) => text.trim() && !this.#cached.has(keyOf(text)));
    if (missing.length) {
      const body = { input: missing, include: [], ...modelAndCase(settings) };
      const results = fetchText("v1/encode", body).then((text) => JSON.parse(text).results);
      missing.forEach((text, i) => this.#cached.set(keyOf(text), results.then((all) => all[i].tokens).catch(() => {
        // In Compare, the request of the comparison fails with the same error and shows it.
        this.#cached.delete(keyOf(text));
        return null;
      })));
    }
    return Promise.all(texts.map((text) => this.#cached.get(keyOf(text)) ?? null));
  }
}
