"""What `index.npy` is, number by number and without NumPy: the tests' oracle."""

from zlib import crc32

import numpy as np


def by_definition(text):
    """The three arrays of a text's index, number by number."""
    words = text.split(b"\n")[:-1]
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    buckets = [[] for _ in range(len(words) + 1 - len(words) % 2)]
    for row, word in enumerate(words):
        buckets[crc32(word) % len(buckets)].append(row)
    firsts = [0]
    for bucket in buckets:
        firsts.append(firsts[-1] + len(bucket))
    return starts, firsts, [row for bucket in buckets for row in bucket]


def index_of(text):
    """What stands in `index.npy`."""
    return np.concatenate(by_definition(text)).astype("<u4")
