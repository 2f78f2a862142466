/** The compared occurrences, each a word in a sentence. */

import { parseJson } from "../client.js";
import { folded, isContentWord } from "../words.js";

/** The limits of this view; the service compares more than fit on the screen. */
export const MIN_OCCURRENCES = 2, MAX_OCCURRENCES = 8;

/** Return occurrences `{text, word, nth}` in the form of the address. */
export function formatOccurrences(occurrences) {
  return JSON.stringify(occurrences.map(({ text, word, nth }) => [text, word, nth]));
}

/** Parse the occurrences in an address; null if they are not valid. A single one is followed by an empty one. */
export function parseOccurrences(json) {
  const rows = parseJson(json);
  const isOccurrence = (row) => {
    if (!Array.isArray(row) || row.length < 2 || row.length > 3) return false;
    const [text, word, nth = 0] = row;
    return typeof text === "string" && typeof word === "string" && Number.isSafeInteger(nth) && nth >= 0;
  };
  if (!Array.isArray(rows) || !rows.length || rows.length > MAX_OCCURRENCES || !rows.every(isOccurrence)) return null;
  const missing = Array.from({ length: Math.max(MIN_OCCURRENCES - rows.length, 0) }, () => ["", ""]);
  return [...rows, ...missing].map(([text, word, nth = 0]) => ({ text, word, nth }));
}

/** Return the index of the token of an occurrence, or −1: of equal words, or else of those that differ in case only. */
export function tokenIndex({ word, nth }, tokens) {
  const matching = (form) => tokens.flatMap(({ text }, i) => (form(text) === form(word) ? [i] : []));
  const exact = matching((text) => text);
  return (exact.length ? exact : matching(folded))[nth] ?? -1;
}

/** Return the `{word, nth}` of token i of a sentence. */
export function wordAt(i, tokens) {
  const { text } = tokens[i];
  return { word: text, nth: tokens.slice(0, i).filter((token) => token.text === text).length };
}

/** Return the longest content word of tokens. */
const longestOf = (tokens) => tokens.filter(({ text }) => isContentWord(text))
  .toSorted((a, b) => [...b.text].length - [...a.text].length)[0];

/**
 * Return occurrences with the words to compare. `tokens` are those of each sentence, or null. The word is the chosen one if the
 * sentence has it, or a form of it, else a content word that all sentences share, else one that is chosen in another sentence,
 * else the longest content word.
 */
export function withWords(occurrences, tokens) {
  const [first = [], ...others] = tokens.filter((sentence) => sentence?.length);
  const isShared = ({ text }) => others.every((sentence) => tokenIndex({ word: text, nth: 0 }, sentence) >= 0);
  const shared = others.length ? longestOf(first.filter(isShared)) : null;
  const proposals = [shared?.text, ...occurrences.map(({ word }) => word)].filter(Boolean);
  return occurrences.map((occurrence, i) => {
    if (!tokens[i]?.length) return occurrence;
    const index = [
      tokenIndex(occurrence, tokens[i]),
      tokenIndex({ ...occurrence, nth: 0 }, tokens[i]),
      tokens[i].findIndex(({ text }) => isContentWord(text) && isForm(text, occurrence.word)),
      ...proposals.map((word) => tokenIndex({ word, nth: 0 }, tokens[i])),
      tokens[i].indexOf(longestOf(tokens[i])),
    ].find((each) => each >= 0);
    return { ...occurrence, ...wordAt(index ?? 0, tokens[i]) };
  });
}

/** Whether one of two words begins with the other, as *bank* and *banks*. */
function isForm(a, b) {
  const [short, long] = [folded(a), folded(b)].toSorted((x, y) => x.length - y.length);
  return short.length > 2 && long.startsWith(short);
}

/** Return whether words differ, apart from case. */
export const differ = (words) => new Set(words.map(folded)).size > 1;
