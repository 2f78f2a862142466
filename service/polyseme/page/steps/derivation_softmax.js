/** How a weight comes out of the scores and biases of its row. */

/** A number of the weights: e^ of its score over the sum of those of its row, where visible. */
export function softmaxed(trace, { row, column }, head) {
  const added = addends(trace, row, head);
  const seen = trace.tokens.map((_, j) => !trace.has("visible") || trace.array("visible")[row][j] === 1);
  const logits = trace.tokens.map((_, j) => added.reduce((sum, { numbers }) => sum + numbers[j], 0));
  const most = Math.max(...logits.filter((_, j) => seen[j]));
  const shares = logits.map((logit, j) => (seen[j] ? Math.exp(logit - most) : 0));
  return {
    symbols: symbols(added, row, column),
    sum: {
      kind: "softmax", column, seen, logits,
      addends: added.map(({ numbers, symbol }) => [symbol, numbers[column]]),
    },
    computed: shares[column] / shares.reduce((a, b) => a + b, 0),
    size: Math.max(...logits.map(Math.abs)),
    note: seen[column] ? "" : hidden(trace, row, column),
    parts: [
      ...added.map(({ part }) => part),
      ...(trace.has("visible") ? [{ name: "visible", row, column: null }] : []),
    ],
  };
}

function hidden(trace, row, column) {
  return `${trace.words[row]} may not look at ${trace.words[column]}, so that this weight is 0.`;
}

/** What is added up before the softmax: for each step a number of every word of the row. */
function addends(trace, row, head) {
  const scores = trace.has("scaled_scores") ? "scaled_scores" : "scores";
  const found = [{
    numbers: trace.array(scores, head)[row], symbol: "score", part: { name: scores, row, column: null },
  }];
  if (trace.has("position_bias")) {
    found.push({
      numbers: trace.array("position_bias", head)[row], symbol: "position bias",
      part: { name: "position_bias", row, column: null },
    });
  }
  const words = trace.has("scaled_word_bias") ? "scaled_word_bias" : "word_bias";
  if (trace.has(words)) {
    found.push({
      numbers: trace.array(words, head), symbol: "word bias", part: { name: words, row: null, column: 0 },
    });
  }
  return found;
}

function symbols(added, row, column) {
  const scored = added[0].part.name === "scores" ? "S" : "S/√k";
  const inner = added.length > 1 ? "s" : scored;
  const where = added.length > 1
    ? `, s = ${[scored, ...added.slice(1).map(({ symbol }) => symbol)].join(" + ")}` : "";
  return `A[${row},${column}] = e^${inner}[${row},${column}] / Σj e^${inner}[${row},j]${where}`;
}
