/** A derivation as text: its sum written out in numbers. */

import { decimals } from "../text.js";

/** Sums of more than MOST terms show the first SHOWN. */
const MOST = 8, SHOWN = 4;
/** Numbers under TINY and from HUGE are written with a power of ten. */
const TINY = 1e-4, HUGE = 1e12;

/**
 * A number with at most `places` decimals, at least two significant digits and no trailing zeros; a tiny
 * or huge number with a power of ten.
 */
function plain(number, places) {
  const size = Math.abs(number);
  if (size >= HUGE || (number !== 0 && size < TINY && size < 0.5 * 10 ** -places)) {
    return number.toExponential(2).replaceAll("-", "−").replace("+", "");
  }
  const significant = number === 0 ? 0 : 1 - Math.floor(Math.log10(size));
  const text = decimals(number, Math.max(places, significant));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** The lines of a derivation, such as "0.74 = 0.4·0.6 + 0.5·0.4 + 0.6·0.5". */
export function derivationLines({ sum, given }, places) {
  const say = (number) => plain(number, places);
  if (!sum) return [];
  return KINDS[sum.kind](sum, say, given);
}

const KINDS = {
  same: ({ number }, say, given) => [`${say(given)} = ${say(number)}`],
  scaled: ({ score, k }, say, given) => [`${say(given)} = ${say(score)} / √${k} = ${say(score)} / ${say(Math.sqrt(k))}`],
  products: ({ terms }, say, given) => [
    `${say(given)} = ${some(terms, ([a, b], i) => `${i ? bracketed(a, say) : say(a)}·${bracketed(b, say)}`, "products")}`,
  ],
  terms: ({ terms }, say, given) => [
    `${say(given)} = ${some(terms, (number, i) => (i ? bracketed(number, say) : say(number)), "numbers")}`,
  ],
  softmax: softmaxText,
  combined: combinedText,
};

function softmaxText({ column, seen, logits, addends }, say, given) {
  const lines = [];
  if (addends.length > 1) {
    const terms = addends.map(([, number], i) => (i ? bracketed(number, say) : say(number)));
    const names = addends.map(([name]) => name).join(" + ");
    lines.push(`${names}: ${terms.join(" + ")} = ${say(logits[column])}`);
  }
  if (!seen[column]) return lines;
  const visible = logits.filter((_, j) => seen[j]);
  const raised = (logit) => `e^${bracketed(logit, say)}`;
  lines.push(`${say(given)} = ${raised(logits[column])} / (${some(visible, raised, "powers")})`);
  return lines;
}

function combinedText({ share, place, numbers: [o, oLength, x, xLength, p] }, say, given) {
  const terms = [
    oLength ? `${say(o)}/${say(oLength)}` : "0",
    xLength ? `${say(share)}·${bracketed(x, say)}/${say(xLength)}` : "0",
  ];
  if (p !== null) terms.push(`${say(place)}·${bracketed(p, say)}`);
  return [`${say(given)} = ${terms.join(" + ")}`];
}

const bracketed = (number, say) => {
  const text = say(number);
  return text.startsWith("−") || text.includes("e") ? `(${text})` : text;
};

/** The terms of a sum; of a long one the first, and how many more there are. */
function some(terms, write, what) {
  if (terms.length <= MOST) return terms.map(write).join(" + ");
  const first = terms.slice(0, SHOWN).map(write).join(" + ");
  return `${first} + … and ${terms.length - SHOWN} more ${what}`;
}
