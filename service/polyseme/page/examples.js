/** The built-in examples of the views Attention, Compare and Senses. */

/** `[name, text]`; Attention opens with the first. */
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

/** `{word, senses, text}`: `senses` is the field of the address, `text` has a sentence on each line. Senses opens with the first. */
export const TEXTS = [
  textExample("apple", "auto", [
    "Apple released a new phone with a faster processor.",
    "Shares of Apple rose after the company reported higher profits.",
    "Apple sells computers and software all over the world.",
    "Engineers at Apple designed the chip of the new laptop.",
    "Apple hired more software developers in London.",
    "Microsoft and Apple compete in the market for computers.",
    "Investors expect Apple to announce a new tablet.",
    "The lawsuit accuses Apple of copying a patented technology.",
    "She peeled an apple and cut it into slices.",
    "The apple tree in our garden bears sweet fruit.",
    "He baked an apple pie with sugar and cinnamon.",
    "The farmer picked a ripe red apple from the tree.",
    "We drank apple juice and ate bread with cheese.",
    "The salad contains apple, celery and walnuts.",
    "Add the grated apple to the flour and the butter.",
    "The monkey ate an apple and a banana.",
  ]),
  textExample("bank", "auto", [
    "The bank raised its interest rates again.",
    "She opened a savings account at the bank.",
    "The bank lends money to small companies.",
    "He asked the bank for a loan to buy a house.",
    "The bank lost millions of dollars in the financial crisis.",
    "The central bank controls the supply of money.",
    "Customers deposit cash at the bank every Friday.",
    "The bank charges a fee for each credit card.",
    "They fished from the bank of the river all afternoon.",
    "The boat reached the muddy bank of the stream.",
    "Willows grow along the river bank near the bridge.",
    "The flooded river washed away its bank.",
    "The village lies on the west bank of the river.",
    "A path follows the steep bank above the water.",
    "We walked along the grassy bank of the canal.",
    "Ducks sleep on the bank beside the lake.",
  ]),
  textExample("spring", "3", [
    "Flowers bloom in early spring after a cold winter.",
    "The birds return each spring and leave in autumn.",
    "The days grow longer and warmer in late spring.",
    "Farmers sow wheat in spring and harvest it in summer.",
    "The season of spring follows the winter.",
    "The festival takes place every spring in April or May.",
    "Fresh water flows from the spring into a stream.",
    "The village gets its drinking water from a spring.",
    "Mineral water rises from a hot spring below the rocks.",
    "The river has its source at a spring on the hill.",
    "They drank from a clear spring in the forest.",
    "A thermal spring feeds the baths of the town.",
    "A steel spring pushes the lever back.",
    "The spring is compressed by the weight of the piston.",
    "The mechanic replaced the broken spring of the suspension.",
    "A coil spring stores mechanical energy.",
    "A stiff steel spring stretches under a heavy load.",
    "The valve is closed by a spring made of wire.",
  ]),
];

function textExample(word, senses, sentences) {
  return { word, senses, text: sentences.join("\n") };
}
