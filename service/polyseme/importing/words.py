"""What the words of a file tell: their order, case and language, and tags.

Tags are such as those of `bank_NOUN` and `/c/en/bank`, which words of texts do not have.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import regex
from numpy.typing import NDArray

MIN_SHARE = 0.95
"""Minimum share of words that have a tag."""
_SAMPLE = 10_000
"""Maximum number of words from which a tag is detected."""
_MANY = 20
"""From this number of words on, a tag need not be known to be detected."""
_SPEECH = "n|v|a|r|s|j|x|adj|adv|noun|verb|propn|pron|prep|adp|det|num|conj|part|intj|aux|punct"
_KNOWN = (
    "</w>$",
    "^b'|'$",  # bytes of Python
    "^/c/[a-z_-]+/",  # ConceptNet Numberbatch
    "^[a-z]+://(?:[^/]*/)+",
    r"\.[a-z]\.[0-9]+$",  # WordNet's synsets
    *("^[a-z]{2,3}:", "@[a-z]{2,3}$", "^<[^<>]+>", "^__[a-z]+__"),  # languages
    *(r"\([^()]+\)$", r"\[[^][]+\]$"),
)
_DELIMITERS = ("::", "__", "_", "|", ":", "/", "#", "@", "%", "~", "^", ".", "-", " ")
_RARE = frozenset(("::", "_", "|", ":", "/", "#", "@", "~", "^"))
"""Delimiters that are rare in words."""
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
MIN_ORDERED = 500
"""Minimum number of words with a letter that tell the order of a file."""
_MIN_TREND, _MAX_DROP, _MAX_GROUP = 4, 2, 2000
"""Limits in standard errors: the length must grow from the first word to the last by more, and its
drops from one group to the next must sum to less. The errors are those of groups of up to so many
words: in larger ones, drops by a fiftieth of a letter would be significant."""
_MAX_CORRELATION = 0.9
"""Maximum correlation of length and rank; a file that exceeds it is sorted by length."""
_MAX_ORDERED = 0.5
"""Maximum difference between the shares of the first pairs of adjacent words that rise and that
fall in alphabetical order."""
_FIRST_WORDS = 1000
_GROUPS = 6


def sorted_by_frequency(words: Iterable[str]) -> bool | None:
    """Return whether words are sorted by frequency, None if there are too few to determine this.

    GloVe, Word2Vec and fastText sort by frequency, some other tools alphabetically. Frequent words
    are short in every language (Zipf's law of abbreviation). So the length of the words that have a
    letter correlates with the logarithm of their rank, and it does not drop from the first 1/32 of
    them to the next 1/32, 1/16, 1/8, 1/4 and 1/2. The correlation is weak, but in 1,000 words of
    Russian, Chinese or Japanese it is five standard errors or more.
    """
    spellings = [word for word in words if any(map(str.isalpha, word))]
    n = len(spellings)
    if n < MIN_ORDERED:
        return None
    _, group, counts = np.unique(list(map(len, spellings)), return_inverse=True, return_counts=True)
    lengths = (np.cumsum(counts) - counts / 2)[group]  # as ranks: a few words are very long
    deviation = float(lengths.std())
    if not deviation:
        return False
    ranks = np.arange(n)
    trend = np.corrcoef(np.log(ranks + 10), lengths)[0, 1] * np.sqrt(n)
    groups = np.split(lengths, [n >> k for k in range(_GROUPS - 1, 0, -1)])
    variances = np.array([deviation**2 / min(len(one), _MAX_GROUP) for one in groups])
    growth = np.diff([one.mean() for one in groups]) / np.sqrt(variances[1:] + variances[:-1])
    first = [word.casefold() for word in spellings[:_FIRST_WORDS]]
    # A rhyming dictionary is sorted by the ends of its words.
    for keys in (first, [word[::-1] for word in first]):
        if abs(np.mean([(x > y) - (x < y) for x, y in pairwise(keys)])) > _MAX_ORDERED:
            return False
    return bool(
        trend > _MIN_TREND
        and np.minimum(growth, 0).sum() > -_MAX_DROP
        and np.corrcoef(ranks, lengths)[0, 1] < _MAX_CORRELATION
    )


def is_cased(words: Sequence[str]) -> bool:
    """Return whether words are as written, with their capitals, rather than in lower case.

    One word in a hundred has to have a capital letter, because files in lower case have a few.
    """
    return 100 * sum(word != word.lower() for word in words) >= len(words)


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


def find_tag(words: Sequence[str]) -> str | None:
    """Return a pattern of the tag that nearly all words have, or None."""
    sample = words[:: len(words) // _SAMPLE + 1]
    patterns = _patterns(sample) if len(sample) > 1 else ()
    return next((tag for pattern, tag in patterns if _is_tag(pattern, sample)), None)


def strip_tags(
    words: Sequence[str], patterns: Sequence[str], counts: NDArray[np.int64] | None
) -> dict[str, int]:
    """Remove the matches of patterns, and spaces beside them; return each resulting word's index.

    Of words that become equal, the most frequent one remains, or the first if there are no counts.
    A word of which nothing would remain is unchanged.
    """
    stripped = list(words)
    for pattern in map(re.compile, patterns):
        stripped = [pattern.sub("", word).strip() or word for word in stripped]
    order = range(len(words)) if counts is None else np.argsort(-counts, kind="stable").tolist()
    indices: dict[str, int] = {}
    for index in order:
        indices.setdefault(stripped[index], index)
    return indices


def _patterns(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield patterns that detect tags, and the pattern that removes each.

    Known tags come first, then beginnings and ends that many words share.
    """
    yield from ((pattern, pattern) for pattern in _KNOWN)
    first, last = _common(words, r"^(?![#@])\W+"), _common(words, r"\W+$")
    yield from ((pattern, pattern) for pattern in (f"^{first}|{last}$", f"^{first}", f"{last}$"))
    for delimiter in map(re.escape, _DELIMITERS):
        for speech, letter in ((_SPEECH, "[a-z]"), (_SPEECH.upper(), "[A-Z]")):
            yield f"{delimiter}(?:{speech})$", f"{delimiter}{letter}+$"
            yield f"^(?:{speech}){delimiter}", f"^{letter}+{delimiter}"
        # Names of parts of speech, such as NN1 and PRP$, and kinds of names, such as WORK_OF_ART.
        tag = "[A-Z][A-Z0-9_$]*" if delimiter == r"\|" else "[A-Z][A-Z0-9$]*"
        yield f"{delimiter}{tag}$", f"{delimiter}{tag}$"
        yield f"^[A-Z]{{2,}}{delimiter}", f"^[A-Z]+{delimiter}"
    yield from ((f"{mark}[0-9][0-9:]*$",) * 2 for mark in "#%~_")  # numbers of senses
    for delimiter in _DELIMITERS:
        mark, other = re.escape(delimiter), f"[^{re.escape(delimiter[0])}]+"
        starts = {word[:i] for word in words if (i := word.find(delimiter, 1)) > 0}
        ends = {word.rpartition(delimiter)[2] for word in words if delimiter in word[1:]}
        for parts, one, several in (
            (starts, "^{}" + mark, f"^{other}{mark}"),
            (ends, mark + "{}$", f"{mark}{other}$"),
        ):
            if len(parts) == 1 and len(words) > 2 and delimiter in _RARE:
                yield (one.format(re.escape(*parts)),) * 2
            elif len(words) >= _MANY and len(parts) <= 2 + len(words) // 50:
                yield several, several


def _common(words: Sequence[str], marks: str) -> str:
    """Return a pattern of the most common match of another pattern."""
    matches = filter(None, (re.search(marks, word) for word in words))
    counts = Counter(match[0] for match in matches).most_common(1)
    return re.escape(counts[0][0]) if counts else "(?!)"


def _is_tag(pattern: str, words: Sequence[str]) -> bool:
    """Return whether nearly all words match a pattern, and what remains are different words."""
    ends = pattern.startswith("^") + pattern.endswith("$")
    compiled = re.compile(pattern)
    results = (compiled.subn("", word) for word in words)
    rests = [
        rest
        for rest, count in results
        if count == ends and 2 * sum(map(str.isalpha, rest)) >= len(rest)
    ]
    # In a vocabulary in capitals, the end of a phrase is like a tag.
    capitals = "[A-Z]" in pattern and 2 * sum(map(str.isupper, rests)) > len(rests)
    distinct = len(set(filter(None, rests)))
    several = distinct > max(1, len(words) // 10)
    return several and not capitals and len(rests) >= MIN_SHARE * len(words)
