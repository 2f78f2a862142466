"""Whether a file's words stand in the order of their frequency."""

from collections.abc import Iterable
from itertools import combinations

FUNCTION_WORDS = (
    *("the", "of", "and", "to", "in", "a", "is", "for", "on", "was", "with", "that", "as", "by"),
    *("at", "from", "it", "be", "are", "this", "he", "an", "or", "which", "not", "have", "but"),
    *("they", "who", "their", "there", "could", "these", "between", "against", "without"),
    *("among", "although", "whether", "toward", "neither", "whereas"),
)
"""English function words, the more frequent before the less."""
FEWEST = 8
"""So many of them have to be there for their order to say anything."""
AGREEMENT = 0.7
"""The part of their pairs that has to stand in the same order; by chance it is a half."""
FRONT = 0.25
"""They are frequent, so their median is to be found in this first part of the file."""


def sorted_by_frequency(words: Iterable[str]) -> bool | None:
    """Whether words stand in the order of their frequency; None where it cannot be told.

    GloVe's, Word2Vec's and fastText's tools sort them so; other tools sort by the alphabet. Asked
    are English function words, in lower case: their order among each other, and whether they stand
    in front.
    """
    places: dict[str, int] = {}
    total = 0
    for total, word in enumerate(words, 1):
        if word in _KNOWN:
            places.setdefault(word, total)
    found = [places[word] for word in FUNCTION_WORDS if word in places]
    if len(found) < FEWEST:
        return None
    pairs = list(combinations(found, 2))
    agreement = sum(a < b for a, b in pairs) / len(pairs)
    in_front = sorted(found)[len(found) // 2] <= max(FRONT * total, 2 * len(FUNCTION_WORDS))
    return agreement >= AGREEMENT and in_front


_KNOWN = frozenset(FUNCTION_WORDS)
