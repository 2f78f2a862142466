/**
 * What is compared: two to eight occurrences, each a sentence and a word in it, as the address
 * keeps them.
 */

/** How many can be compared here; the service itself takes more than a picture shows. */
export const FEWEST = 2, MOST = 8;

/** As the address has them. */
export const written = (occurrences) =>
  JSON.stringify(occurrences.map(({ text, word, nth }) => [text, word, nth]));

/**
 * The occurrences of an address, null where it names none that can be shown. One alone waits for
 * another, which is still empty.
 */
export function parsed(json) {
  let rows;
  try {
    rows = JSON.parse(json);
  } catch {
    return null;
  }
  if (!Array.isArray(rows) || !rows.length || rows.length > MOST || !rows.every(right)) return null;
  const missing = Array.from({ length: Math.max(FEWEST - rows.length, 0) }, () => ["", ""]);
  return [...rows, ...missing].map(([text, word, nth = 0]) => ({ text, word, nth }));
}

function right(row) {
  if (!Array.isArray(row) || row.length < 2 || row.length > 3) return false;
  const [text, word, nth = 0] = row;
  return typeof text === "string" && typeof word === "string" && Number.isSafeInteger(nth) && nth >= 0;
}

/** Which token of a sentence an occurrence is, as the service finds it; −1 where it is none. */
export function placeOf({ word, nth }, tokens) {
  const same = tokens.flatMap((token, i) => (token.text === word ? [i] : []));
  const found = same.length ? same : tokens.flatMap((token, i) => (alike(token.text, word) ? [i] : []));
  return found[nth] ?? -1;
}

/** The word and its count that name the i-th token of a sentence. */
export function named(i, tokens) {
  const { text } = tokens[i];
  return { word: text, nth: tokens.slice(0, i).filter((token) => token.text === text).length };
}

const alike = (a, b) => a.toLowerCase() === b.toLowerCase();

/**
 * The word to compare in a sentence that was typed anew: the one that was chosen where it is still
 * there, else the one in its place, else one that another occurrence has, else the longest.
 */
export function picked(chosen, tokens, { before = [], others = [] } = {}) {
  if (!tokens.length) return chosen;
  const at = [
    placeOf(chosen, tokens),
    placeOf({ ...chosen, nth: 0 }, tokens),
    replaced(chosen, tokens, before),
    tokens.findIndex(({ text }) => others.some((word) => alike(text, word))),
    longest(tokens),
  ].find((place) => place >= 0);
  return named(at, tokens);
}

/** The place of the chosen word where no other word of the sentence has changed. */
function replaced(chosen, tokens, before) {
  const place = placeOf(chosen, before);
  const kept = tokens.length === before.length
    && tokens.every(({ text }, i) => i === place || text === before[i].text);
  return kept ? place : -1;
}

function longest(tokens) {
  const lengths = tokens.map(({ text }) => [...text].length);
  return lengths.indexOf(Math.max(...lengths));
}
