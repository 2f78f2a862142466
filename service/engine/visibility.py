"""Which tokens a token may look at."""

from typing import Literal, TypeAlias

import numpy as np

from service.engine.arrays import Flags, Integers

LooksAt: TypeAlias = Literal["all", "others", "other-words"]
"""`all` tokens; `others`: not itself; `other-words`: not itself nor its word elsewhere."""


def visible_keys(known: Flags, words: Integers, looks_at: LooksAt, rows: range) -> Flags | None:
    """Which keys each row may look at, None where all may look at all. [n], [n] -> [b, n]

    Unknown tokens are never looked at. A token that is left with nothing to look at looks at
    itself, so that its row of weights still sums to 1.
    """
    if looks_at == "all" and known.all():
        return None
    here = np.arange(rows.start, rows.stop)
    visible = np.broadcast_to(known, (len(here), len(known))).copy()
    if looks_at == "others":
        visible[here - rows.start, here] = False
    elif looks_at == "other-words":
        visible &= words[here, None] != words
    alone = ~visible.any(axis=1)
    visible[alone, here[alone]] = True
    return visible
