"""Hostile requests, as bytes: the same for the same seed and number."""

from random import Random

from tests.server.hostile_bodies import BODY_MAKERS, LARGE, TENSORS, VALUES, Hostile
from tests.server.hostile_http import FRAMING, LINES, PATH_MAKERS

KINDS = {
    maker.__name__: maker
    for maker in (*VALUES, *BODY_MAKERS, *PATH_MAKERS, *FRAMING, *LINES, *TENSORS)
}
RARE = {maker.__name__: maker for maker in LARGE}
"""Those that are megabytes, or cost the service as much as hundreds of others."""
SELDOM = 400
"""One of so many requests is a rare one."""


def hostile(seed: int, number: int) -> Hostile:
    """One request. The kinds take turns, the rare ones less often."""
    rng = Random(f"{seed} {number}")
    turn, seldom = divmod(number, SELDOM)
    kinds = RARE if seldom == 0 else KINDS
    names = list(kinds)
    name = names[(turn if seldom == 0 else number) % len(names)]
    return kinds[name](rng)._replace(kind=name)
