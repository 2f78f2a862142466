"""Tags of vocabularies, such as `bank_NOUN` and `/c/en/bank`, which words of texts do not have."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

MIN_SHARE = 0.95
"""Minimum share of words that have a tag."""
_SAMPLE = 10_000
"""Maximum number of words from which a tag is detected."""
_MAX_TAG = 40
"""Maximum characters of a tag at the end of a word."""
_FIRST = re.compile(r"[^\W_]*+([\W_])++")
_LAST = (re.compile(r"([\W_]++)[^\W_]*+[\W_]*+$"), re.compile(r"([\W_]++)[^\W_]*+$"))
"""The signs between the rest of a word and a tag; the first includes what a bracket ends."""


def find_tag(words: Sequence[str]) -> str | None:
    """Return a pattern of the tags that nearly all words begin or end with, or None."""
    sample = words[:: len(words) // _SAMPLE + 1]
    firsts = Counter(match[1] for word in sample if (match := _FIRST.match(word)))
    beginnings, ends = [], []
    for sign, _ in firsts.most_common(1):
        first = re.escape(sign)
        beginnings = [f"^.*{first}", f"^[^{first}]*{first}"]
    for last in _LAST:
        matches = filter(None, (last.search(word[-_MAX_TAG:]) for word in sample))
        for signs, _ in Counter(match[1] for match in matches).most_common(1):
            ends.append(f"{re.escape(signs)}[^{re.escape(signs[0])}]*$")
    patterns = [*product(beginnings, ends), *zip(beginnings), *zip(ends)]
    return next(("|".join(parts) for parts in patterns if _are_tags(parts, sample)), None)


def strip_tags(
    words: Sequence[str], patterns: Sequence[str], counts: NDArray[np.int64] | None
) -> dict[str, int]:
    """Remove the matches of patterns from words; return the index of each resulting word.

    Of words that become equal, the most frequent one remains, or the first if there are no counts.
    A word of which nothing would remain is unchanged.
    """
    stripped = list(words)
    for pattern in map(re.compile, patterns):
        stripped = [rest if (rest := pattern.sub("", word)).strip() else word for word in stripped]
    order = range(len(words)) if counts is None else np.argsort(-counts, kind="stable").tolist()
    indices: dict[str, int] = {}
    for index in order:
        indices.setdefault(stripped[index], index)
    return indices


def _are_tags(patterns: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether nearly all words have a few tags, and what remains are different words."""
    tags, rests = set(), []
    pattern = re.compile("|".join(patterns))
    for word in words:
        parts = tuple(match[0] for match in pattern.finditer(word))
        rest = pattern.sub("", word)
        if len(parts) == len(patterns) and 2 * sum(map(str.isalpha, rest)) >= len(rest) > 0:
            tags.add(parts)
            rests.append(rest)
    few = tags.isdisjoint({("#",), ("@",)}) and len(tags) <= 2 + len(words) // 50
    several = len(set(rests)) > max(1, len(words) // 10)
    return few and several and len(rests) >= MIN_SHARE * len(words)
