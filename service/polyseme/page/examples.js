/** Example sentences for the view Attention and example occurrences for the view Compare. */

/** `[name, text]`; the page opens with the first. */
export const SENTENCES = [
  ["Two apples", "Apple launched a new phone while I was eating an apple."],
  ["Two banks", "We sat on the bank of the river and talked about the bank that lent us money."],
  ["A pronoun", "The animal didn't cross the street because it was too tired."],
];

/** `[name, occurrences in the form of the address]`; Compare opens with the first. */
export const OCCURRENCES = [
  example("Apple / apple",
    ["Apple launched a new phone", "Apple"],
    ["I was eating an apple pie", "apple"]),
  example("bank / bank",
    ["River bank flows", "bank"],
    ["Money bank grows", "bank"]),
  example("four banks",
    ["The boat drifted to the river bank", "bank"],
    ["Trees grow on the bank of the stream", "bank"],
    ["The bank lent money to the company", "bank"],
    ["She has savings in a bank account", "bank"]),
  example("bass / bass",
    ["He plays bass in a jazz band", "bass"],
    ["We caught a huge bass in the lake", "bass"]),
  example("Java / Java",
    ["Java is a programming language", "Java"],
    ["Coffee grows on the island of Java", "Java"]),
  example("crane / crane",
    ["The crane lifted steel beams at the building site", "crane"],
    ["A white crane stood in the marsh with other birds", "crane"]),
  example("python / Python",
    ["The python snake swallowed a rat", "python"],
    ["The program is written in Python", "Python"]),
  example("plant / plant",
    ["The power plant makes electricity", "plant"],
    ["Water the plant and its leaves grow", "plant"]),
];

/** Return an example of rows `[text, word]`, each with the first occurrence of the word in its text. */
function example(name, ...rows) {
  return [name, JSON.stringify(rows.map(([text, word]) => [text, word, 0]))];
}
