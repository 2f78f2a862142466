/** Matrices as text: typed, or pasted from a spreadsheet, JSON or NumPy. */

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const DECIMAL_COMMA = /^[+−-]?\d*,\d+$/;
const COMMA = "Write decimals with a point, as in 0.5. A comma separates two numbers;"
  + " if they are whole numbers, write a space after it.";

/** Return a matrix as lines of numbers. */
export const matrixText = (rows) => rows.map((row) => row.join(" ")).join("\n");

/**
 * Parse a matrix: JSON, NumPy's output, or lines of numbers separated by tabs, semicolons, commas or spaces. Return
 * `{rows}`, or `{error}` with a sentence.
 */
export function parseMatrix(text) {
  const { lines, error } = text.includes("[") ? bracketedLines(text) : plainLines(text);
  if (error) return { error };
  if (!lines.length) return { error: "There are no numbers." };
  const rows = [];
  for (const [i, words] of lines.entries()) {
    const wrong = words.map(numberError).find(Boolean);
    if (wrong) return { error: `Row ${i}: ${wrong}` };
    if (words.length !== lines[0].length) {
      return { error: `Row ${i} has ${words.length} numbers, but row 0 has ${lines[0].length}.` };
    }
    rows.push(words.map((word) => Number(withAsciiMinus(word))));
  }
  return { rows };
}

const withAsciiMinus = (word) => word.trim().replaceAll("−", "-");

/** Return a sentence if a word is not a finite number. */
function numberError(word) {
  const text = withAsciiMinus(word);
  if (!text) return "A number is missing.";
  if (!NUMBER.test(text)) return `“${word.trim().slice(0, 20)}” is not a number.`;
  return Number.isFinite(Number(text)) ? "" : "This number is too large.";
}

/** Split `[[0.1, 0.2], [0.3, 0.4]]` or `[[0.1 0.2]\n [0.3 0.4]]` into the words of the innermost brackets. */
function bracketedLines(text) {
  const inner = [...text.matchAll(/\[([^[\]]*)\]/g)].map(([, row]) => row.trim()).filter(Boolean);
  return inner.some(hasDecimalCommas) ? { error: COMMA } : { lines: inner.map((row) => row.split(/\s*,\s*|\s+/)) };
}

function plainLines(text) {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/[ \r]+$/, "")).filter((line) => line.trim());
  const separator = [/\t/, /;/].find((each) => lines.some((line) => each.test(line)));
  if (separator) {
    return /\d,\d/.test(text) ? { error: COMMA } : { lines: lines.map((line) => line.split(separator)) };
  }
  const ambiguous = lines.length > 0 && lines.every((line) => DECIMAL_COMMA.test(line.trim()));
  if (ambiguous || lines.some(hasDecimalCommas)) return { error: COMMA };
  return { lines: lines.map((line) => line.trim().split(/\s*,\s*|\s+/)) };
}

/** Whether the commas of a line are decimal commas: `0,1 0,2`. */
function hasDecimalCommas(line) {
  const words = line.trim().split(/\s+/);
  return words.length > 1 && words.every((word) => DECIMAL_COMMA.test(word));
}
