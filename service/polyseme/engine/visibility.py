"""Which tokens a token may look at."""

from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Integers

LooksAt: TypeAlias = Literal["all", "others", "other-words"]
"""`all` tokens; `others`: not itself; `other-words`: not itself nor its word elsewhere."""


def hidden_keys(
    known: Flags | None, words: Integers, looks_at: LooksAt, rows: range
) -> Flags | None:
    """Which keys each row may not look at, None where all may look at all. [n], [n] -> [b, n]

    `known` is None where all are. Unknown tokens are never looked at. A token that is left with
    nothing to look at looks at itself, so that its row of weights still sums to 1.
    """
    if looks_at == "all" and known is None:
        return None
    if looks_at == "other-words":
        hidden: Flags = words[rows.start : rows.stop, None] == words
    else:
        hidden = np.zeros((len(rows), len(words)), np.bool_)
        if looks_at == "others":
            np.fill_diagonal(hidden[:, rows.start :], True)
    if known is not None:
        hidden |= ~known
    # Between a first and a last word that differ nobody is alone.
    if known is not None or not len(words) or words[0] == words[-1]:
        alone = np.flatnonzero(hidden.all(axis=1))
        hidden[alone, alone + rows.start] = False
    return hidden
