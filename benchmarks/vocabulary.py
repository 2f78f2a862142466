"""Measure a worker's private memory and the time of thirty lookups, for several vocabulary indexes.

    python benchmarks/vocabulary.py [--words 400000] [--rounds 5]

Each run is a new process that forks two workers, like gunicorn's master. Both workers look up every
word once. Then the first worker reports how much its private memory (Private_Dirty + Private_Clean)
and its proportional set size (PSS) in /proc/self/smaps_rollup have grown since a warm-up with a
small index, and the time of lookups. A `forked` index is built before the fork; otherwise each
worker reads or builds it. The indexes run in turn. marisa-trie is skipped if it is not installed.
Results: results/vocabulary.json.
"""

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

import click
import numpy as np
from processes import megabytes
from record import median_row, record
from synthetic import words as synthetic_words

from polyseme.models.manifest import VOCABULARY
from polyseme.models.reader import read_manifest, read_model
from polyseme.models.vocabulary import Vocabulary, map_file
from polyseme.models.writer import write_model

MANY, FEW = "words", "few"
TRIE, TRIE_ROWS = "words.marisa", "rows.npy"
_SENTENCE = 30
_SENTENCES = 1000
_FORK = multiprocessing.get_context("fork")


class Lookup(Protocol):
    """An index of words."""

    def row(self, word: str) -> int | None:
        """Return the row of a word, or None."""


class Dict:
    """A Python dict."""

    def __init__(self, folder: Path) -> None:
        self.row = {word: row for row, word in enumerate(words_of(folder))}.get


class Trie:
    """A marisa-trie with the row of each key. Lookups replace NUL, which would end a key."""

    def __init__(self, trie: Any, rows: np.ndarray) -> None:
        self._trie, self._rows = trie, rows.data

    @classmethod
    def built(cls, folder: Path) -> "Trie":
        """Build the trie from the words."""
        import marisa_trie

        keys = list(words_of(folder))
        trie = marisa_trie.Trie(keys)
        rows = np.empty(len(keys), np.int32)
        rows[[trie[key] for key in keys]] = np.arange(len(keys))
        return cls(trie, rows)

    @classmethod
    def mapped(cls, folder: Path) -> "Trie":
        """Map the files that `save` wrote."""
        import marisa_trie

        trie = marisa_trie.Trie()
        trie.mmap(str(folder / TRIE))
        return cls(trie, np.load(folder / TRIE_ROWS, mmap_mode="r"))

    def save(self, folder: Path) -> None:
        """Write both files."""
        self._trie.save(str(folder / TRIE))
        np.save(folder / TRIE_ROWS, np.asarray(self._rows))

    def row(self, word: str) -> int | None:
        """Return the row of a word, or None."""
        if "\n" in word:
            return None
        key = self._trie.get(word.replace("\0", "\n"))
        return None if key is None else self._rows[key]


def index_mapped(folder: Path) -> Lookup:
    """Map Polyseme's index from its file."""
    return read_model(folder).vocabulary


def index_built(folder: Path) -> Lookup:
    """Build Polyseme's index in memory from the file of words."""
    return Vocabulary.of(map_file(_text_path(folder).open("rb")))


class Variant(NamedTuple):
    """An index, and whether it is built before the fork."""

    make: Callable[[Path], Lookup]
    forked: bool


VARIANTS = {
    "dict, forked": Variant(Dict, forked=True),
    "dict": Variant(Dict, forked=False),
    "marisa-trie, forked": Variant(Trie.built, forked=True),
    "marisa-trie": Variant(Trie.built, forked=False),
    "marisa-trie, mapped": Variant(Trie.mapped, forked=False),
    "index.npy, mapped": Variant(index_mapped, forked=False),
    "index built in memory, forked": Variant(index_built, forked=True),
    "index built in memory": Variant(index_built, forked=False),
}


def _text_path(folder: Path) -> Path:
    return folder / read_manifest(folder).stored_name(VOCABULARY)


def words_of(folder: Path) -> Iterator[str]:
    """Yield the words of a model."""
    with _text_path(folder).open("rb") as file:
        for line in file:
            yield line[:-1].decode()


def memory() -> dict[str, float]:
    """Return private memory and PSS of this process, in MB."""
    private = megabytes("self", "Private_Dirty", "Private_Clean")
    return {"private_mb": private, "pss_mb": megabytes("self", "Pss")}


def seconds(lookup: Lookup, sentences: list[list[str]]) -> float:
    """Return the median time to look up the words of a sentence."""
    times = []
    for sentence in sentences:
        started = time.perf_counter()
        for word in sentence:
            lookup.row(word)
        times.append(time.perf_counter() - started)
    return median(times)


def sentences_of(folder: Path) -> list[list[str]]:
    """Draw sentences of words from the whole vocabulary."""
    words = list(words_of(folder))
    return [random.Random(n).sample(words, _SENTENCE) for n in range(_SENTENCES)]  # noqa: S311


def work(
    variant: Variant, folder: Path, lookup: Lookup | None, barrier: Barrier, results: Any
) -> None:
    """Run a worker; only the first worker has a `results` queue."""
    few = variant.make(folder.parent / FEW)  # loads the code, which is not measured
    for word in words_of(folder.parent / FEW):
        few.row(word)
    before, started = memory(), time.perf_counter()
    lookup = variant.make(folder) if lookup is None else lookup
    ready = time.perf_counter() - started
    for row, word in enumerate(words_of(folder)):
        if lookup.row(word) != row:
            raise AssertionError(word)
    barrier.wait()
    grown = {name: mb - before[name] for name, mb in memory().items()}
    barrier.wait()
    if results is not None:
        time_of_30 = seconds(lookup, sentences_of(folder)) * 1e6
        results.put({**grown, "microseconds_30_words": time_of_30, "worker_ready_s": ready})
    barrier.wait()


def serve(name: str, folder: Path, results: Any) -> None:
    """Run the master: build the index if the variant is `forked`, then fork two workers."""
    variant, barrier = VARIANTS[name], _FORK.Barrier(2)
    lookup = variant.make(folder) if variant.forked else None
    arguments = [(variant, folder, lookup, barrier, queue) for queue in (results, None)]
    workers = [_FORK.Process(target=work, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def run(name: str, folder: Path) -> dict[str, float]:
    """Run one variant once."""
    results = _FORK.SimpleQueue()
    master = _FORK.Process(target=serve, args=(name, folder, results))
    master.start()
    measured: dict[str, float] = results.get()
    master.join()
    return measured


def prepare(folder: Path, count: int) -> None:
    """Write a model with a table of one column, and the trie's files."""
    write_model(folder, synthetic_words(count), np.ones((count, 1), np.float16), cased=True)
    if find_spec("marisa_trie"):
        Trie.built(folder).save(folder)


@click.command()
@click.option("--words", default=400_000)
@click.option("--rounds", default=5)
def main(words: int, rounds: int) -> None:
    """Run the benchmark."""
    marisa = ["marisa-trie"] if find_spec("marisa_trie") else []
    names = [name for name in VARIANTS if marisa or "marisa" not in name]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / MANY
        # In a separate process, so that later forks do not inherit the words.
        for target, count in ((folder, words), (Path(parent) / FEW, 100)):
            writer = _FORK.Process(target=prepare, args=(target, count))
            writer.start()
            writer.join()
        for _ in range(rounds):
            for name in names:
                runs[name].append(run(name, folder))
                click.echo(f"{name:<32} {runs[name][-1]}")
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    middle = {name: median_row(of_variant, 3) for name, of_variant in runs.items()}
    result = {"words": words, "rounds": rounds, "file_bytes": sizes, "median": middle}
    record("vocabulary", ["numpy", *marisa], result)


if __name__ == "__main__":
    main()
