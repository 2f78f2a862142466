/** What context does to the pairs of occurrences, in words. */

import { letter } from "../figures/letters.js";
import { short } from "../frame/numbers.js";

const ONLY = "and only context tells them apart";
const NEITHER = "and here context does not tell them apart either";

/** Of an answer: which pair context parts most, or what it does where it parts none. */
export function parted({ static_similarity: before, contextual_similarity: after }) {
  const all = before.flatMap((_, j) => before.slice(0, j).map((__, i) => {
    const numbers = `${short(before[i][j])} static, ${short(after[i][j])} in context.`;
    const farther = before[i][j].toFixed(2) - after[i][j].toFixed(2);
    // A cosine with no vector is zero by definition: from there, nothing comes nearer.
    const there = before[i][i] > 0 && before[j][j] > 0;
    return { name: `${letter(i)} and ${letter(j)}`, numbers, farther, there };
  }));
  const known = all.filter(({ there }) => there).toSorted((a, b) => b.farther - a.farther);
  if (all.length > 1) return `Cosines of every pair.${change(known, known.length === all.length)}`;
  const same = known.some(({ farther }) => !farther) ? " Context leaves them as they were." : "";
  return `Cosine of A and B: ${all[0].numbers}${same}`;
}

/** Of pairs with static vectors, those first that context parts; `whole` where there are no others. */
function change(pairs, whole) {
  if (!pairs.length) return "";
  const first = pairs[0], last = pairs.at(-1);
  if (first.farther > 0) return ` Context parts ${first.name} most: ${first.numbers}`;
  if (pairs.length === 1) {
    const pair = `the pair ${first.name}, which have static vectors,`;
    return first.farther
      ? ` Context brings ${pair} nearer: ${first.numbers}`
      : ` Context leaves ${pair} as it was.`;
  }
  const which = whole ? "" : " with static vectors";
  if (!last.farther) return ` Context leaves every pair${which} as it was.`;
  return first.farther < 0
    ? ` Context brings all pairs${which} nearer, ${last.name} most: ${last.numbers}`
    : ` Context parts none of the pairs${which} and brings ${last.name} nearer most: ${last.numbers}`;
}

/** The note of a pair that shares a static vector, also where their contexts are the same. */
export function told(said, [i, j], { contextual_similarity: after }) {
  return after[i][j].toFixed(2) === "1.00" ? said.replace(ONLY, NEITHER) : said;
}
