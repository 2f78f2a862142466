"""The language of the words of a vocabulary."""

from collections import Counter
from collections.abc import Sequence

import regex

MIN_WORDS = 300
"""Minimum number of words with a letter that tell a language."""
_FIRST, _OTHERS, _REACH = 500, 500, 100_000
"""The first words, which may be the most frequent ones, and how many are drawn from the others, up
to a row: in a file that is sorted alphabetically, the first words may be of other languages."""
_PARTS = 3
_MIN_LENGTH, _FIRST_CJK = 4, "\u2e80"
"""Words of fewer letters are of many languages, except in Han and kana."""
_MAX_RATIO = 1 / 3
"""Maximum number of words of the second language for each of the first. It is .3 or less in
vocabularies of one language, more than .35 in mixtures of equal parts."""
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_CODES = {"arz": "ar", "ary": "ar", "wuu": "zh", "yue": "zh", "zxx": ""}
"""Languages that are written like the macrolanguage; zxx are words of no language, as of genes."""


def find_language(words: Sequence[str]) -> str | None:
    """Return the ISO 639 code of the language of words, None if it is not clear.

    Each part of a sample has to be of the language, and far more of its words than of any other.
    The order of the words does not matter much. Takes a second, most of it for the model.
    """
    spellings = [word.lower() for word in words[:_REACH] if any(map(str.isalpha, word))]
    if len(spellings) < MIN_WORDS:
        return None
    others = spellings[_FIRST:]
    sample = spellings[:_FIRST] + others[:: len(others) // _OTHERS + 1]
    size = -(-len(sample) // _PARTS)
    parts = {_classify(" ".join(sample[i : i + size])) for i in range(0, len(sample), size)}
    longer = [word for word in sample if len(word) >= _MIN_LENGTH or word > _FIRST_CJK]
    if parts == {"ja"}:  # Japanese words in kanji alone look Chinese
        longer = [word for word in longer if _KANA.search(word)]
    votes = [*Counter(map(_classify, longer)).most_common(2), ("", 0), ("", 0)]
    (language, count), (_, second) = votes[:2]
    is_clear = parts == {language} and second <= _MAX_RATIO * count
    return language if language and is_clear else None


def _classify(text: str) -> str:
    from py3langid import classify

    code, _ = classify(text)
    return _CODES.get(code, str(code))
