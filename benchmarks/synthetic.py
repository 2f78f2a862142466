"""Write GloVe files of any size: words of realistic lengths and normally distributed values."""

from pathlib import Path

import numpy as np
import orjson

LETTERS = np.frombuffer(b"etaoinshrdlcumwfgypbvk", np.uint8)
_CHUNK = 10_000


def words(count: int, seed: int = 1) -> list[str]:
    """Return different words; short words tend to come first, as in files sorted by frequency."""
    rng = np.random.default_rng(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        lengths = rng.integers(3, 14, size=_CHUNK)
        letters = rng.choice(LETTERS, size=int(lengths.sum())).tobytes().decode()
        ends = np.cumsum(lengths)
        distinct |= dict.fromkeys(
            letters[end - length : end] for end, length in zip(ends, lengths, strict=True)
        )
    drawn = list(distinct)[:count]
    order = np.argsort([len(word) for word in drawn] + rng.normal(0, 5, count), kind="stable")
    return [drawn[place] for place in order]


def write_glove(path: Path, count: int, width: int, seed: int = 1) -> None:
    """Write a file of `count` words and vectors of `width` dimensions."""
    rng = np.random.default_rng(seed)
    vocabulary = words(count, seed)
    with path.open("wb") as out:
        for start in range(0, count, _CHUNK):
            part = vocabulary[start : start + _CHUNK]
            rows = np.round(rng.normal(0, 0.4, (len(part), width)), 5)
            for word, row in zip(part, rows, strict=True):
                numbers = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
                out.write(b"%s %s\n" % (word.encode(), numbers[1:-1].replace(b",", b" ")))
