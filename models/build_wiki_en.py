"""Train the bundled model `wiki-en`: cased Word2Vec vectors with closed-form attention weights.

    make model          (or: python models/build_wiki_en.py --corpus FOLDER --work build/wiki-en)

Reads every `*.txt.zst` of the corpus folder (one paragraph a line), counts words, chooses the
vocabulary, trains skip-gram vectors with gensim on one thread (so that two runs on one machine give
the same file; PYTHONHASHSEED=0 is set by the Makefile) and writes `models/wiki-en`. Each step keeps
its result in the work folder and is skipped when that is there.
"""

import io
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import gensim
import numpy as np
import regex
import zstandard
from gensim.models import Word2Vec
from gensim.models.callbacks import CallbackAny2Vec
from senses import measure
from tqdm import tqdm

from service.engine.layer import Layer
from service.store.folder import read_model
from service.store.writer import write_model
from service.text.pieces import splits
from service.text.words import words
from service.training.closed_form import association, closed_form, informativeness

VOCABULARY, WIDTH, EPOCHS, SEED = 70_000, 128, 5, 1
WORD2VEC = {"sg": 1, "negative": 5, "window": 6, "sample": 1e-4, "min_count": 1, "workers": 1}
# A lower-case form that is seen this much more seldom than the name it spells is left out, so that
# in lower-cased text `german` and `java` fall back to German and Java.
NAME_RATIO = 50
NOTICE = """\
The model wiki-en (c) the Polyseme authors is licensed under the Creative Commons
Attribution-ShareAlike 3.0 Unported License (CC BY-SA 3.0):
https://creativecommons.org/licenses/by-sa/3.0/legalcode

It is derived from the text of English Wikipedia and Simple English Wikipedia, which is
by their contributors and available under the same licence:
https://en.wikipedia.org and https://simple.wikipedia.org
"""
_MARKUP = regex.compile(r"formula_\d+")
_CHUNK = 20_000


def paragraphs(corpus: Path) -> Iterator[str]:
    """Yield the lines of every compressed text of a folder."""
    for file in sorted(corpus.glob("*.txt.zst")):
        with file.open("rb") as raw:
            reader = zstandard.ZstdDecompressor().stream_reader(raw)
            yield from io.TextIOWrapper(reader, encoding="utf-8")


def chunks(corpus: Path) -> Iterator[list[str]]:
    """Yield the paragraphs in lists that are worth sending to another process."""
    lines = paragraphs(corpus)
    while chunk := list(islice(lines, _CHUNK)):
        yield chunk


def tokens(paragraph: str) -> list[str]:
    """Cut a paragraph as the service does, contractions and possessives split, names left whole."""
    found: list[str] = []
    for start, end in words(paragraph):
        word = paragraph[start:end].replace("’", "'")
        if _MARKUP.fullmatch(word):
            continue
        first = next(splits(word), [(0, len(word))])
        # A contraction is split in two; the joints of Hawai'i and O'Brien are pieces of their own.
        contraction = len(first) == len(("stem", "clitic")) and "'" in word[first[1][0] :]
        found += [word[a:b] for a, b in first] if contraction else [word]
    return found


def count_chunk(chunk: list[str]) -> Counter[str]:
    """Count the words of some paragraphs."""
    return Counter(word for line in chunk for word in tokens(line))


def choose(counts: Counter[str]) -> dict[str, int]:
    """Return the vocabulary, most frequent word first."""
    kept = {}
    for word, count in counts.most_common():
        name = max(counts[word.capitalize()], counts[word.upper()]) if word.islower() else 0
        if name <= NAME_RATIO * count:
            kept[word] = count
        if len(kept) == VOCABULARY:
            break
    return kept


_kept: dict[str, int] = {}


def rewrite_chunk(chunk: list[str]) -> tuple[str, int]:
    """Return the paragraphs as known words and known pieces of unknown ones, and their number."""
    lines, total = [], 0
    for line in chunk:
        known: list[str] = []
        for word in tokens(line):
            if word in _kept:
                known.append(word)
            else:
                finest = [[], *splits(word)][-1]
                known += [word[a:b] for a, b in finest if word[a:b] in _kept]
        if len(known) > 1:
            lines.append(" ".join(known))
            total += len(known)
    return "\n".join(lines) + "\n", total


def prepare(corpus: Path, work: Path) -> None:
    """Write `corpus.txt` and `counts.json` into the work folder."""
    global _kept  # noqa: PLW0603 - inherited by the forked processes below
    counts: Counter[str] = Counter()
    with multiprocessing.Pool() as pool:
        for part in tqdm(
            pool.imap(count_chunk, chunks(corpus)), desc="count", unit="chunk", disable=None
        ):
            counts.update(part)
    _kept = choose(counts)
    total, lines = 0, 0
    final: Counter[str] = Counter()
    with multiprocessing.Pool() as pool, (work / "corpus.part").open("w") as out:
        for text, number in tqdm(
            pool.imap(rewrite_chunk, chunks(corpus)), desc="rewrite", disable=None
        ):
            out.write(text)
            final.update(text.split())
            total, lines = total + number, lines + text.count("\n")
    (work / "corpus.part").rename(work / "corpus.txt")
    vocabulary = dict(final.most_common())
    summary = {"tokens": total, "lines": lines, "counts": vocabulary}
    (work / "counts.json").write_text(json.dumps(summary, ensure_ascii=False))


class Report(CallbackAny2Vec):
    """One line after each epoch."""

    def __init__(self) -> None:
        self.started, self.epoch = time.monotonic(), 0

    def on_epoch_end(self, model: Word2Vec) -> None:
        """Say how far the training is."""
        self.epoch += 1
        seconds = time.monotonic() - self.started
        click.echo(f"epoch {self.epoch} of {model.epochs} after {seconds:.0f} s", err=True)


def train(work: Path, summary: dict) -> None:
    """Train the vectors; keep input and output vectors as `vectors.npz` in the work folder."""
    model = Word2Vec(vector_size=WIDTH, seed=SEED, epochs=EPOCHS, **WORD2VEC)
    model.build_vocab_from_freq(summary["counts"], corpus_count=summary["lines"])
    model.train(
        corpus_file=str(work / "corpus.txt"),
        total_examples=summary["lines"],
        total_words=summary["tokens"],
        epochs=EPOCHS,
        callbacks=[Report()],
    )
    in_order = list(summary["counts"])
    rows = [model.wv.key_to_index[word] for word in in_order]
    np.savez(work / "part.npz", vectors=model.wv.vectors[rows], outputs=model.syn1neg[rows])
    (work / "part.npz").rename(work / "vectors.npz")


def attach(work: Path, summary: dict) -> tuple[np.ndarray, list[Layer], np.ndarray]:
    """Return the vectors in float16, their closed-form layer and the bias of each word."""
    arrays = np.load(work / "vectors.npz")
    vectors = arrays["vectors"].astype(np.float16)
    counts = np.array(list(summary["counts"].values()), np.float64)
    frequencies = counts / counts.sum()
    # From the rounded vectors, which are the ones that will be looked up.
    rounded = vectors.astype(np.float32)
    key = association(rounded, arrays["outputs"], frequencies)
    return vectors, [closed_form(rounded, key)], informativeness(frequencies)


def write(work: Path, summary: dict, data: Path | None, folder: Path) -> None:
    """Write the model folder, with what `senses.py` measures where the data is there."""
    vectors, layers, word_bias = attach(work, summary)
    facts = {
        "cased": True,
        "languages": ["en"],
        "licence": "CC-BY-SA-3.0",
        "source": "English and Simple English Wikipedia (CC BY-SA 3.0), trained by this project",
        "training": {
            "script": "models/build_wiki_en.py",
            "vectors": f"gensim {gensim.__version__} Word2Vec",
            "settings": {**WORD2VEC, "vector_size": WIDTH, "epochs": EPOCHS, "seed": SEED},
            "tokens": summary["tokens"],
            "attention": "closed form: association, nearness, informativeness, half-whitening",
        },
    }
    in_order = list(summary["counts"])
    write_model(folder, in_order, vectors, layers, word_bias, **facts)
    if data:
        facts["quality"] = dict(measure(read_model(folder), data))["contextual vector"]
        write_model(folder, in_order, vectors, layers, word_bias, **facts)
    (folder / "LICENSE").write_text(NOTICE)


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="For `senses.py`.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/wiki-en"))
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path(__file__).parent / "wiki-en"
)
def main(corpus: Path, data: Path | None, work: Path, output: Path) -> None:
    """Build `models/wiki-en`."""
    work.mkdir(parents=True, exist_ok=True)
    click.echo(f"gensim {gensim.__version__}, numpy {np.__version__}", err=True)
    if not (work / "counts.json").exists():
        prepare(corpus, work)
    summary = json.loads((work / "counts.json").read_text())
    if not (work / "vectors.npz").exists():
        train(work, summary)
    write(work, summary, data, output)


if __name__ == "__main__":
    main()
