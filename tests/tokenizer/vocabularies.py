"""Vocabularies and texts to tokenize."""

import regex
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from polyseme.spellings import spelling_key
from polyseme.tokenizer import Tokenized, Tokenizer, _Lexer, no_subwords
from polyseme.words import has_key, is_compound, word_spans

PROPERTY = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
"""Settings of property tests: the same examples in each run, and no time limit."""

GAP = regex.compile(r"[\s\x1c-\x1f\p{Default_Ignorable_Code_Point}\p{Cc}]*")
"""What may be between words: white space, and what is ignored."""


class Vocabulary:
    """Words and their rows."""

    def __init__(self, *known, turkic=False):
        self.rows = {word: row for row, word in enumerate(dict.fromkeys(known))}
        self.turkic = turkic
        self.hides_digits = any(str(n) not in self.rows for n in range(10, 20))
        self.has_compounds = any(map(is_compound, self.rows))
        self.keys = {}
        for word, row in self.rows.items():
            if has_key(word):
                self.keys.setdefault(spelling_key(word), []).append((word, row))
        self.lookup_cost = 0
        """lookups, plus the characters of the words"""

    def row(self, word):
        self.lookup_cost += 1 + len(word)
        return self.rows.get(word)

    def candidates(self, key):
        self.lookup_cost += 1 + len(key)
        return self.keys.get(key, [])


def tokenize(text, vocabulary, case="auto", composes=no_subwords):
    """The tokens of a text, without a cache."""
    tokens = list(_Lexer(vocabulary, case, composes).tokens(text))
    return Tokenized(tokens, text=text).with_offsets()


def resolve_all(texts, vocabulary, case="auto", composes=no_subwords):
    """One token for each word of a list, without a cache."""
    return list(map(_Lexer(vocabulary, case, composes).word_token, texts))


def cached(text, vocabulary, case="auto", composes=no_subwords):
    """The tokens of a text, whose offsets are exact, with a cache and without one."""
    tokens = Tokenizer(vocabulary, composes).tokens(text, case)
    assert tokens == tokenize(text, vocabulary, case, composes)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    return tokens


def shown(text, *known, case="auto", composes=no_subwords):
    """The texts of the tokens: `(text)` if it is composed, `[text]` if it is unknown."""
    forms = {"subword": "({})", "oov": "[{}]"}
    tokens = cached(text, Vocabulary(*known), case, composes)
    return [forms.get(token.resolution, "{}").format(token.text) for token in tokens]


def spans_of_words(text, tokens):
    """The spans of the words of a text, of which those that share a token are one."""
    spans = []
    for start, end in word_spans(text):
        if spans and any(t.start < spans[-1][1] and start < t.end for t in tokens):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


_AWKWARD = """
e\u0301 \u0301 \u0300\u0301 n\u0303o ﬁ ß İ ı ſ Ǆ Σς
👩🏽\u200d🚒 🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧 🇩🇪 🇩🇪🇫 1\ufe0f\u20e3 ❤\ufe0f 🏽 \u200d
שלום ש\u05b8לו\u05b9ם מנכ״ל سلام مُحَمَّد \u200f \u202e हिन्दी ไทย 한국어 \u1112\u1161\u11ab
𝔘𝔫𝔦 𐍈 𠮷野家 \U0010ffff \ud800 \udfff \ue000 \x00 \ufeff \u200b
didn't can’t John's 's ’ '' `` ' n't N’T rock'n'roll '90s
high-end state-of-the-art - -- ‑ 3.14 1,000 10:30 1990s 5km ½ ٣
https://a.b/c?d=e. www. http:// a.b+c@d.example @ U.S. e.g. U.S Ph.D.
... … .... !!! ?! ( ) & AT&T _ a_b #tag $5.99 50% a/b
"""
SPACES = [*" \n\t\xa0\u2003\u3000\x85\u2028\x1c\x1f"]
AWKWARD = [*_AWKWARD.split(), *SPACES]

characters = st.characters(exclude_categories=())
texts = st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(characters, max_size=5)), max_size=12)
texts = texts.map("".join)
"""Texts of any Unicode, with lone surrogates and many characters that are hard to tokenize."""

unbroken = texts.map(lambda text: "".join(text.split())).filter(bool)
"""Such texts without white space, and not empty."""


@st.composite
def texts_with_vocabularies(draw):
    """A text and a vocabulary of its substrings, some of them in another case."""
    text = draw(texts)
    place = st.integers(0, len(text))
    known = set()
    for start, end in draw(st.lists(st.tuples(place, place), max_size=25)):
        word = text[min(start, end) : max(start, end)][:12]
        change = draw(st.sampled_from([str, str, str.lower, str.upper, str.capitalize]))
        known.add(change(word))
    known |= set(draw(st.lists(st.sampled_from(text), max_size=12))) if text else set()
    return text, Vocabulary(*sorted(known))
