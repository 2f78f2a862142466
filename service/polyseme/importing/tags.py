"""Tags of vocabularies, such as `bank_NOUN` and `/c/en/bank`, which words of texts do not have."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MIN_SHARE = 0.95
"""Minimum share of words that have a tag."""
_SAMPLE = 10_000
"""Maximum number of words from which a tag is detected."""
_SPEECH = "n|v|a|r|s|j|x|adj|adv|noun|verb|propn|pron|prep|adp|det|num|conj|part|intj|aux|punct"
_DELIMITER = r"(?<=.)(?:::|__|[_|/#@~^ -])"
_TAGS = (
    *("</w>$", "^▁", r"^[\"'<„]|[\"'>“]$", r"\([^()]+\)$", r"\[[^][]+\]$"),
    *("^/c/[a-z_-]+/", "^[a-z]+://(?:[^/]*/)+"),  # ConceptNet Numberbatch, addresses
    *(r"\.[a-z]\.[0-9]+$", "#[0-9][0-9:]*$"),  # senses of WordNet
    *(r"^[a-z]{2,3}:(?=\D)", "@[a-z]{2,3}$"),  # languages
    f"{_DELIMITER}(?:{_SPEECH}|{_SPEECH.upper()})$",
    *(r"(?<=.)\|[A-Z][A-Z0-9_$]*$", f"{_DELIMITER}[A-Z][A-Z0-9$]*$", "^[A-Z]{2,}[_|/:]"),
)


def find_tag(words: Sequence[str]) -> str | None:
    """Return a pattern of a usual tag that nearly all words have, or None.

    In a vocabulary in capitals, the end of a phrase is like a tag.
    """
    sample = words[:: len(words) // _SAMPLE + 1]
    for tag in map(re.compile, _TAGS):
        rests = [tag.sub("", word) for word in sample if tag.search(word)]
        capitals = "[A-Z]" in tag.pattern and 2 * sum(map(str.isupper, rests)) > len(rests)
        if len(rests) >= max(MIN_SHARE * len(sample), 2) and not capitals:
            return tag.pattern
    return None


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
