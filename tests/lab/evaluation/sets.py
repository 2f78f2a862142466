"""Tiny evaluation sets in the formats of the real ones, and functions that write them to disk."""

import io
import json
import tarfile

import numpy as np

COARSE = {
    "coarsewsd/bank/classes_map.txt": [json.dumps({"0": "bank_river", "1": "bank_money"})],
    "coarsewsd/bank/train.data.txt": ["0\tbank river", "0\tbank money", "1\tmoney bank"],
    "coarsewsd/bank/train.gold.txt": ["0", "1", "1"],
    "coarsewsd/bank/test.data.txt": [
        "1\triver bank",
        "0\tbank money",
        "0\tbank river",
        "0\tbank -",
    ],
    "coarsewsd/bank/test.gold.txt": ["0", "1", "0", "1"],
}
"""Occurrences of bank beside river (sense 0) or money (sense 1), and a last one beside neither."""
WIC = {
    "wic/train/train.data.txt": [
        "bank\tN\t0-1\tbank river\triver bank",
        "bank\tN\t0-0\tbank river\tbank money",
    ],
    "wic/train/train.gold.txt": ["T", "F"],
    "wic/dev/dev.data.txt": [
        "bank\tN\t1-0\tmoney bank\tbank money",
        "bank\tN\t0-0\tbank money\tbank river",
        "bank\tN\t0-0\tbank money\tbank money",
    ],
    "wic/dev/dev.gold.txt": ["T", "F", "F"],
}
WIC_WITH_MOLES = {
    "wic/dev/dev.data.txt": [
        "bank\tN\t1-0\tthe bank .\tbank money",
        "mole\tN\t1-0\tthe mole .\tbank money",
        "bank\tN\t0-1\tBANK .\tthe moles",
    ],
    "wic/dev/dev.gold.txt": ["T", "F", "F"],
}
"""A set with words that the tiny model lacks."""
CONTEXT_VECTORS = {"river": [1, 0], "money": [0, 1], "-": [0, 0]}


def by_neighbor(occurrences):
    """The sum of the vectors of the other words, for results by hand. -> [m, 2]"""
    rows = []
    for one in occurrences:
        others = [word for n, word in enumerate(one.words) if n != one.place]
        rows.append(np.sum([CONTEXT_VECTORS.get(word, [0, 0]) for word in others], axis=0))
    return np.array(rows, np.float32)


def text_of(lines):
    return "".join(f"{line}\n" for line in lines)


def unpacked(folder, files):
    """Write a set as files; return the folder."""
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(lines), "utf-8")
    return folder


def archived(file, files, kind="xz"):
    """Write a set as a tar archive; return the file. Values may be lines or bytes."""
    with tarfile.open(file, f"w:{kind}") as tar:
        for name, lines in files.items():
            data = lines if isinstance(lines, bytes) else text_of(lines).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file
