"""A sample of a corpus: paragraphs drawn from all of it, in bounded memory."""

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from polyseme.training.source import Read, lines

_DRAWN = 65_536
"""Random numbers made at one time."""
_SHORTEST = 4
"""words of a paragraph that can be context"""


def sample(paths: Sequence[Path], words: int, seed: int, read: Read = lambda _: None) -> list[str]:
    """Paragraphs of so many words together, in the order of the files.

    Each line gets a random number; kept are those with the smallest, as many as there is room for.
    So every paragraph is as likely as any other, wherever it stands and however long the files are.
    """
    kept: list[tuple[float, int, int, str]] = []
    held = 0
    lines_of_all = (line for path in paths for line in lines(path, read))
    for number, (line, key) in enumerate(zip(lines_of_all, _keys(seed), strict=False)):
        length = line.count(" ") + 1
        if length < _SHORTEST or (held >= words and key >= -kept[0][0]):
            continue
        heapq.heappush(kept, (-key, number, length, line))
        held += length
        while held - kept[0][2] >= words:
            held -= heapq.heappop(kept)[2]
    return [line for _, _, _, line in sorted(kept, key=lambda one: one[1])]


def _keys(seed: int) -> Iterator[float]:
    rng = np.random.default_rng([seed, 0xC0])
    while True:
        yield from rng.random(_DRAWN).tolist()
