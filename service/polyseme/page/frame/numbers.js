/** Numbers as people read them. */

const { format } = globalThis.d3;

const byDecimals = new Map();

/** A number with so many decimals, and a real minus sign. */
export function decimals(number, count) {
  if (!byDecimals.has(count)) byDecimals.set(count, format(`.${count}f`));
  const text = byDecimals.get(count)(number);
  return /^−[0.]*$/.test(text) ? text.slice(1) : text;
}

/** A weight or a cosine. */
export const short = (number) => decimals(number, 2);

/** A share of one, in percent. */
export const percent = format(".0%");

/** A count, with its thousands apart. */
export const count = format(",");

/** Bytes in the unit people say: 33.4 MB. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? decimals(number, 1) : number} ${units[unit]}`;
}

/** The cosine of two rows of numbers; 0 where one is zero. */
export function cosine(a, b) {
  let product = 0, square = 0, other = 0;
  for (let i = 0; i < a.length; i += 1) {
    product += a[i] * b[i];
    square += a[i] * a[i];
    other += b[i] * b[i];
  }
  return square && other ? product / Math.sqrt(square) / Math.sqrt(other) : 0;
}
