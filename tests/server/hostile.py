"""Hostile requests as bytes, reproducible from a seed and a number."""

from random import Random

from tests.server.hostile_bodies import BODY_MAKERS, LARGE, TENSORS, VALUES, Hostile
from tests.server.hostile_http import FRAMING, LINES, PATH_MAKERS

KINDS = {
    maker.__name__: maker
    for maker in (*VALUES, *BODY_MAKERS, *PATH_MAKERS, *FRAMING, *LINES, *TENSORS)
}
RARE = {maker.__name__: maker for maker in LARGE}
"""Requests of megabytes, or as expensive for the service as hundreds of others."""
RARITY = 400
"""One in this many requests is a rare one."""


def hostile(seed: int, number: int) -> Hostile:
    """Return a request. The kinds take turns, also those of rare requests."""
    rng = Random(f"{seed} {number}")
    if number % RARITY == 0:
        kinds, turn = RARE, number // RARITY
    else:
        kinds, turn = KINDS, number
    name = list(kinds)[turn % len(kinds)]
    return kinds[name](rng)._replace(kind=name)
