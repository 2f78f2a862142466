/** What teaching notes print for an example, beside what the arithmetic gives. */

import { about } from "./names.js";

/**
 * Every printed number: `{name, row, column, printed, places, wrong}`. It is right where it equals the
 * service's number to the decimals that were printed.
 */
export function printedNumbers(printed, trace) {
  return Object.entries(printed ?? {}).flatMap(([label, values]) => {
    const [name, place = ""] = label.split("_row_");
    const [row, column] = place ? place.split("_").map(Number) : [];
    const places = Math.max(...[values].flat(2).map(decimalsOf));
    const rows = row === undefined ? values : [[values].flat()];
    return rows.flatMap((numbers, i) => numbers.map((number, j) => {
      const cell = { name, looking: null, row: row ?? i, column: column ?? j };
      // A little more than half a unit, for what lies on the edge.
      const wrong = !(Math.abs(trace.number(cell, 0) - number) <= 0.51 * 10 ** -places);
      return { ...cell, printed: number.toFixed(places), places, wrong };
    }));
  });
}

/** How many printed values are wrong, and where. */
export function printedSentence(found, trace) {
  if (!found.length) return "The notes print no values for this example.";
  const wrong = found.filter((one) => one.wrong);
  const values = found.length === 1 ? "1 value" : `${found.length} values`;
  if (!wrong.length) {
    return `The notes print ${values} for this example: ${found.length === 1 ? "it is right" : "all are right"}.`;
  }
  const are = wrong.length === found.length ? "all of them are wrong"
    : wrong.length === 1 ? "1 is wrong" : `${wrong.length} are wrong`;
  return `The notes print ${values} for this example, and ${are}: ${listed(wrong, trace)}.`
    + " Wrong ones are struck through beside the right ones.";
}

/** "2 in the queries (row love), 4 in the keys (rows I, love)". */
function listed(wrong, trace) {
  return [...Map.groupBy(wrong, ({ name }) => name)].map(([name, ones]) => {
    const rows = [...new Set(ones.map(({ row }) => trace.words[row]))];
    return `${ones.length} in the ${about(name).title.toLowerCase()} (row${rows.length > 1 ? "s" : ""} ${rows.join(", ")})`;
  }).join(", ");
}

function decimalsOf(number) {
  return (String(number).split(".")[1] ?? "").length;
}
