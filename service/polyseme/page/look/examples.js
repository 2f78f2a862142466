/** Sentences to look at: `[name, text]`; the first is what the page opens with. */
export const EXAMPLES = [
  ["Two apples", "Apple launched a new phone while I was eating an apple."],
  ["Two banks", "We sat on the bank of the river and talked about the bank that lent us money."],
  ["A pronoun", "The animal didn't cross the street because it was too tired."],
];
