/** A derivation as text, with the arithmetic written out in numbers. */

import { decimals } from "../text.js";

/** A sum of more than MAX_TERMS terms shows the first FIRST_TERMS. */
const MAX_TERMS = 8, FIRST_TERMS = 4;
/** Numbers of HUGE or more, and those below TINY that would be rounded to 0, are written with an exponent. */
const TINY = 1e-4, HUGE = 1e12;

/**
 * Format a number with `digits` decimals, or more for two significant digits, without trailing zeros. A tiny or
 * huge number is written with an exponent.
 */
function formatNumber(number, digits) {
  const size = Math.abs(number);
  if (size >= HUGE || (number !== 0 && size < TINY && size < 0.5 * 10 ** -digits)) {
    return number.toExponential(2).replaceAll("-", "−").replace("+", "");
  }
  const significant = number === 0 ? 0 : 1 - Math.floor(Math.log10(size));
  const text = decimals(number, Math.max(digits, significant));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Return the lines of a derivation, such as "0.74 = 0.4·0.6 + 0.5·0.4 + 0.6·0.5". */
export function derivationLines({ sum, given }, digits) {
  const format = (number) => formatNumber(number, digits);
  if (!sum) return [];
  return KINDS[sum.kind](sum, format, given);
}

const KINDS = {
  same: ({ number }, format, given) => [`${format(given)} = ${format(number)}`],
  scaled: ({ score, k }, format, given) => [`${format(given)} = ${format(score)} / √${k} = ${format(score)} / ${format(Math.sqrt(k))}`],
  products: ({ terms }, format, given) => [
    `${format(given)} = ${sumText(terms, ([a, b], i) => `${i ? bracketed(a, format) : format(a)}·${bracketed(b, format)}`, "products")}`,
  ],
  terms: ({ terms }, format, given) => [
    `${format(given)} = ${sumText(terms, (number, i) => (i ? bracketed(number, format) : format(number)), "numbers")}`,
  ],
  softmax: softmaxText,
  combined: combinedText,
};

function softmaxText({ column, visible, logits, addends }, format, given) {
  const lines = [];
  if (addends.length > 1) {
    const terms = addends.map(([, number], i) => (i ? bracketed(number, format) : format(number)));
    const names = addends.map(([name]) => name).join(" + ");
    lines.push(`${names}: ${terms.join(" + ")} = ${format(logits[column])}`);
  }
  if (!visible[column]) return lines;
  const unmasked = logits.filter((_, j) => visible[j]);
  const raised = (logit) => `e^${bracketed(logit, format)}`;
  lines.push(`${format(given)} = ${raised(logits[column])} / (${sumText(unmasked, raised, "powers")})`);
  return lines;
}

function combinedText({ share, positionShare, numbers: [o, oNorm, x, xNorm, p] }, format, given) {
  const terms = [
    oNorm ? `${format(o)}/${format(oNorm)}` : "0",
    xNorm ? `${format(share)}·${bracketed(x, format)}/${format(xNorm)}` : "0",
  ];
  if (p !== null) terms.push(`${format(positionShare)}·${bracketed(p, format)}`);
  return [`${format(given)} = ${terms.join(" + ")}`];
}

const bracketed = (number, format) => {
  const text = format(number);
  return text.startsWith("−") || text.includes("e") ? `(${text})` : text;
};

/** Return the terms of a sum; of a long sum, the first terms and the number of the others. */
function sumText(terms, write, what) {
  if (terms.length <= MAX_TERMS) return terms.map(write).join(" + ");
  const first = terms.slice(0, FIRST_TERMS).map(write).join(" + ");
  return `${first} + … and ${terms.length - FIRST_TERMS} more ${what}`;
}
