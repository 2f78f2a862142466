/** Examples to compare, which the bundled model reads as people do. */

import { written } from "./occurrences.js";

const example = (name, ...rows) =>
  [name, written(rows.map(([text, word]) => ({ text, word, nth: 0 })))];

/** `[name, occurrences as the address has them]`; the first is what the view opens with. */
export const EXAMPLES = [
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
