"""Texts of any length that cost much work per character, and a count of that work."""

import unicodedata
from types import SimpleNamespace

from polyseme import spellings, tokenizer


def repeated(unit):
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def in_words(unit, length=250):
    """Words of a length that is looked up, of repetitions of a unit."""
    return repeated(repeated(unit)(length) + " ")


def descending_marks(size):
    """Marks that normalization sorts, in quadratic time."""
    return "a" + "\u0301" * (size // 2) + "\u0316" * (size - size // 2 - 1)


UNITS = {
    "Hangul jamo": "\u1112\u1161\u11ab",
    "ligatures that grow in upper case": "\ufb03",
    "contractions": "n't",
    "dots": "xq.zj.",
    "hyphens": "q-z-",
    "apostrophes": "é’q’",
    "digits and letters": "1a",
    "joined emoji": "👩\u200d",
    "soft hyphens": "q\u00ad",
    "signs and letters": "+q<z#",
    "elisions": "l'",
    "digits": "19",
    "katakana": "カ",
    "Han and letters": "鑄q-",
}
"""Units of one long word, and of words of a length that is looked up."""
TEXTS = {
    "ordinary": repeated("The bank did not raise its rates; the river rose. "),
    "marks in descending order": descending_marks,
    "words of such marks": repeated(descending_marks(250) + " "),
    "letters that grow in lower case": repeated("İ"),
    "words of musical symbols that grow in NFC": in_words("x\U0001d160"),
    "chain of commas": repeated("1,"),
    "handles": repeated("@qz9x "),
    "one long handle": lambda size: "@" + "q" * (size - 1),
    "mail addresses": repeated("a@b.c "),
    "web addresses": repeated("www.q "),
    "one long address": lambda size: "http://" + "q/" * (size // 2),
    "regional indicators": repeated("🇩"),
    "currencies and units": repeated("$5 3kg "),
    "one letter": repeated("x"),
    "one sign": repeated("!"),
    "two signs": repeated("!?"),
    "one sign with marks": lambda size: "!" + repeated("\u0316\u0301")(size - 1),
    "white space": repeated(" \u2003\u3000\x1c\t\n"),
    "letters in white space": lambda size: "a" + " \u2003\u3000" * (size // 3) + "b",
    "short unknown words": repeated("qz Xj "),
    "only soft hyphens": repeated("\u00ad"),
    "joiners": repeated("a\u200c"),
    "variation selectors": repeated("葛\ufe00"),
    "ligatures that grow in NFKC": in_words("\ufdfa"),
    "surrogates": repeated("\ud800a"),
    "quoted words": repeated("«“(qz)”», "),
    "brackets": repeated("[{qz}] "),
    "emoticons": repeated(":-) <3 ^_^ "),
    "vocalized words": in_words("م\u064e\u0651"),
    "marked letters in descending order": in_words("q\u0307\u0323"),
    "emoji with skin tones": in_words("👍🏽"),
    "elided words": repeated("l'qz "),
    "kana with marks": repeated("か\u3099"),
    "Thai": repeated("กิ"),
    "Han and digits": repeated("鑄1"),
    **{name: repeated(unit) for name, unit in UNITS.items()},
    **{f"words of {name}": in_words(unit) for name, unit in UNITS.items()},
}


class Work:
    """A count of what tokenization does, in units that grow with its time."""

    def __init__(self, monkeypatch):
        self.normalized = self.looked_up = self.composed = self.tokens = self.lookups = 0
        self.turkic, self.hides_digits, self.has_compounds = False, True, True
        self.longest = 0
        """the longest text that was normalized, looked up or composed"""
        self._resolve = tokenizer.resolve
        functions = SimpleNamespace(normalize=self._normalize)
        monkeypatch.setattr(spellings, "unicodedata", functions)
        monkeypatch.setattr(tokenizer, "resolve", self._count_token)

    def _normalize(self, form, text):
        # Normalization takes quadratic time for marks in descending order.
        self.normalized += len(text) ** 2
        self.longest = max(self.longest, len(text))
        return unicodedata.normalize(form, text)

    def _count_token(self, *arguments, **options):
        self.tokens += 1
        return self._resolve(*arguments, **options)

    def count(self, word):
        """Count a lookup."""
        self.lookups += 1
        self.looked_up += 1 + len(word)
        self.longest = max(self.longest, len(word))

    def row(self, word):
        """Look up a word in a vocabulary of some pieces: a `RowLookup`."""
        self.count(word)
        return 0 if word in ("the", "a", "1", "-", ".", "x", "n", "l'") else None

    def candidates(self, key):
        """Look up a key in a vocabulary with one word that has an apostrophe."""
        self.looked_up += 1 + len(key)
        return [(key, 0)] if key == "l'" else ()

    def composes(self, spelling):
        """Return False, so that words are split as far as possible: a `CanCompose`."""
        self.composed += 1 + len(spelling)
        self.longest = max(self.longest, len(spelling))
        return False

    def total(self):
        """All work so far."""
        return self.normalized / spellings.MAX_WORD_LENGTH + self.looked_up + self.composed
