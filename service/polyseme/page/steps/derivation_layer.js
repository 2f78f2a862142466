/** What comes after attention in a stored model's layer, and steps that only have a formula. */

/** A number of the residual: R = O, R = X + O, or R = O/|O| + s·X/|X| + t·p. */
export function combined(trace, { row, column }) {
  const formula = trace.formula("residual");
  const output = trace.array("output")[row], start = trace.array("embeddings")[row];
  const one = (name, all = false) => ({ name, row, column: all ? null : column });
  if (formula === "R = O") {
    return same(output[column], `R[${row},${column}] = O[${row},${column}]`, [one("output")]);
  }
  if (formula === "R = X + O") {
    return added([start[column], output[column]], `R[${row},${column}] = X[${row},${column}] + O[${row},${column}]`,
      [one("embeddings"), one("output")]);
  }
  const shares = /^R = O\/\|O\| \+ ([\d.e+-]+)·X\/\|X\|(?: \+ ([\d.e+-]+)·p)?$/.exec(formula);
  if (!shares) return { symbols: formula, parts: [one("output", true), one("embeddings", true)] };
  const [share, place] = shares.slice(1).map((text) => Number(text ?? 0));
  const lengths = [output, start].map((numbers) => Math.hypot(...numbers));
  const terms = [
    lengths[0] && output[column] / lengths[0],
    lengths[1] && (share * start[column]) / lengths[1],
  ];
  const parts = [one("output", true), one("embeddings", true)];
  // A row without any content stays zero, without its place.
  if (place && lengths.some((length) => length > 0)) {
    terms.push(place * trace.array("position")[row][column]);
    parts.push(one("position"));
  }
  return {
    ...added(terms, formula.replace("R =", `R[${row},${column}] =`), parts),
    sum: {
      kind: "combined", share, place,
      numbers: [output[column], lengths[0], start[column], lengths[1],
        terms.length > 2 ? trace.array("position")[row][column] : null],
    },
  };
}

function same(number, symbols, parts) {
  return { symbols, parts, sum: { kind: "same", number }, computed: number, size: Math.abs(number) };
}

function added(terms, symbols, parts) {
  return {
    symbols, parts,
    sum: { kind: "terms", terms },
    computed: terms.reduce((a, b) => a + b, 0),
    size: terms.reduce((a, b) => a + Math.abs(b), 0),
  };
}

const NOTES = {
  embeddings: (trace) => (trace.request.text === undefined ? "Given in the request."
    : trace.request.layer ? "The result of the layer before." : "The static vector of the word, stored in the model."),
  position_bias: (trace, { row, column }) =>
    `Stored in the model for the distance ${column - row} from ${trace.words[row]} to ${trace.words[column]}.`,
  word_bias: () => "Stored in the model.",
  position: () => "Computed from the word's place in the sentence alone.",
};

/** A step that is given, or whose arithmetic is not written out: what it is made from. */
export function restOf(trace, cell) {
  const { name, row, column } = cell;
  const symbols = trace.formula(name);
  if (name.endsWith("_weight")) return { symbols, note: "Given in the request." };
  if (name in NOTES) return { symbols, note: NOTES[name](trace, cell) };
  if (name === "visible") return { symbols, note: looks(trace, cell) };
  if (name === "scaled_word_bias") return { symbols, parts: [{ name: "word_bias", row, column: 0 }] };
  if (name === "contextual") return result(trace, row, column);
  return { symbols, parts: sourcesOf(trace, name).map((source) => ({ name: source, row, column: null })) };
}

function looks(trace, { row, column }) {
  const may = trace.array("visible")[row][column] === 1 ? "may" : "may not";
  return `${trace.words[row]} ${may} look at ${trace.words[column]}.`;
}

/** The steps that a norm or the feed-forward network works on: mostly the one before. */
function sourcesOf(trace, name) {
  const names = [...trace.steps.keys()];
  const before = names[names.indexOf(name) - 1];
  return before === "feed_forward" ? [startOf(names), before] : [before].filter(Boolean);
}

/** What the feed-forward network's change is added to. */
function startOf(names) {
  return names.indexOf("attention_norm") > names.indexOf("residual") ? "attention_norm" : "residual";
}

/** The result: the last step itself, or what went into the network plus what came out of it. */
function result(trace, row, column) {
  const names = [...trace.steps.keys()];
  const final = names[names.indexOf("contextual") - 1];
  const place = `[${row},${column}]`;
  if (final !== "feed_forward") {
    return same(trace.array(final)[row][column], `Y${place} = the same number of the step before`,
      [{ name: final, row, column }]);
  }
  const start = startOf(names);
  return added([trace.array(start)[row][column], trace.array(final)[row][column]],
    `Y${place} = ${start === "residual" ? "R" : "X̂"}${place} + F${place}`,
    [{ name: start, row, column }, { name: final, row, column }]);
}
