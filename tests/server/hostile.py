"""Hostile requests, as bytes: the same for the same seed and number, wherever they are made."""

from collections.abc import Iterator
from random import Random

from tests.faults import (
    hostile_bodies,
    hostile_framing,
    hostile_lines,
    hostile_paths,
    hostile_tensors,
    hostile_values,
)
from tests.faults.requests import MARK, Hostile

KINDS = {
    maker.__name__: maker
    for module in (
        *(hostile_values, hostile_bodies, hostile_paths, hostile_framing, hostile_lines),
        hostile_tensors,
    )
    for maker in module.MAKERS
}
RARE = {maker.__name__: maker for maker in hostile_bodies.RARE}
"""Those that are megabytes, or cost the service as much as hundreds of others."""
SELDOM = 400
"""Each so many is a rare one."""


def hostile(seed: int, number: int) -> Hostile:
    """One request. Each kind has its turn, the rare ones seldom."""
    rng = Random(f"{seed} {number}")
    turn, seldom = divmod(number, SELDOM)
    kinds = RARE if seldom == 0 else KINDS
    names = list(kinds)
    name = names[(turn if seldom == 0 else number) % len(names)]
    return kinds[name](rng)._replace(kind=name)


def requests(seed: int, start: int, stop: int) -> Iterator[bytes]:
    """The bytes of some of them, in order."""
    return (hostile(seed, number).sent for number in range(start, stop))


__all__ = ["KINDS", "MARK", "RARE", "Hostile", "hostile", "requests"]
