/** Words as this view shows them: not too long, and told apart. */

import { shortened } from "../figures/lettering.js";

const MOST = 48;

/** A word as it is shown: of a very long one, its beginning. */
export const shown = (word) => shortened(word, MOST);

/** Words by which rows are told apart: one that comes again is numbered. */
export function told(tokens) {
  const words = tokens.map(shown);
  const times = Map.groupBy(words, (word) => word);
  const seen = new Map();
  return words.map((word) => {
    if (times.get(word).length === 1) return word;
    seen.set(word, (seen.get(word) ?? 0) + 1);
    return `${word}${subscript(seen.get(word))}`;
  });
}

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const subscript = (number) => [...String(number)].map((digit) => SUBSCRIPTS[digit]).join("");
