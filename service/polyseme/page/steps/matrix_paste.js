/** Text that somebody pastes or types as numbers. */

/** The most rows and columns that are edited here. */
export const MOST = 64;

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const ONE_COMMA = /^[+−-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5: a comma stands between numbers here,"
  + " with a space after it where both are whole.";

/** The number that a text says: `{number}` or, in a sentence, `{wrong}`. */
export function numberOf(text) {
  const said = text.trim().replaceAll("−", "-");
  if (ONE_COMMA.test(said)) return { wrong: "Write decimals with a point, as in 0.5." };
  const number = Number(said);
  if (!said) return { wrong: "A number is missing." };
  if (!NUMBER.test(said)) return { wrong: `“${text.trim().slice(0, 20)}” is no number.` };
  if (!Number.isFinite(number)) return { wrong: "This number is too large." };
  return { number };
}

/** Whether a pasted text is more than what fits into one cell. */
export function isBlock(text) {
  return /[\s,;[\]]/.test(text.trim()) && !ONE_COMMA.test(text.trim());
}

/**
 * The matrix that a pasted text says, `{rows}` or `{wrong}`: lines of numbers with tabs, semicolons,
 * commas or spaces between them, JSON, or what NumPy prints.
 */
export function blockOf(text) {
  const cut = text.includes("[") ? bracketed(text) : lines(text);
  if (cut.wrong) return cut;
  const rows = [];
  for (const [i, words] of cut.rows.entries()) {
    const row = words.map(numberOf);
    const bad = row.find(({ wrong }) => wrong);
    if (bad) return { wrong: `Row ${i}: ${bad.wrong}` };
    if (rows.length && row.length !== rows[0].length) {
      return { wrong: `Row ${i} has ${row.length} numbers where row 0 has ${rows[0].length}.` };
    }
    rows.push(row.map(({ number }) => number));
  }
  if (!rows.length) return { wrong: "There are no numbers in what was pasted." };
  if (rows.length > MOST || rows[0].length > MOST) {
    return { wrong: `There is room for ${MOST} rows and ${MOST} columns here.` };
  }
  return { rows };
}

/** `[[0.1, 0.2], [0.3, 0.4]]` and `[[0.1 0.2]\n [0.3 0.4]]`: what stands in the inmost brackets. */
function bracketed(text) {
  const inner = [...text.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row.trim()).filter(Boolean);
  if (inner.some((row) => decimalComma(row))) return { wrong: COMMA };
  return { rows: inner.map((row) => row.split(/\s*,\s*|\s+/)) };
}

function lines(text) {
  const full = text.split(/\r?\n/).map((line) => line.replace(/[ \r]+$/, "")).filter((line) => line.trim());
  const separator = [/\t/, /;/].find((one) => full.some((line) => one.test(line)));
  if (separator) {
    if (full.some((line) => line.split(separator).some((word) => /\d,\d/.test(word)))) return { wrong: COMMA };
    return { rows: full.map((line) => line.split(separator)) };
  }
  if (full.some(decimalComma) || full.every((line) => ONE_COMMA.test(line.trim()))) return { wrong: COMMA };
  return { rows: full.map((line) => line.trim().split(/\s*,\s*|\s+/)) };
}

/** Whether commas stand inside numbers that spaces keep apart: `0,1 0,2`. */
function decimalComma(line) {
  const words = line.trim().split(/\s+/);
  return words.length > 1 && words.every((word) => /^[+−-]?\d+,\d+$/.test(word));
}
