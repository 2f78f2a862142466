"""Measure how time and memory grow with sentences, lists, vocabularies and workers.

    python benchmarks/growth.py [--longest 16384] [--words 3000000] [--rounds 3]

- A sentence is encoded from text to vectors, with attention weights and without. The exponents are
  fitted to lengths of 1,024 and more. The longest sentence needs 6 GB of memory.
- A list of real texts is encoded to contextual vectors.
- A GloVe file of DIMENSION values is imported, beside gensim's load of it into memory; the import
  also checks every row, computes weights, fits subwords, writes the model and reads it back. Then
  the model is read and encodes its first sentence, and sentences of 20 known words.
- Services of some workers encode sentences of 20 words that wrk posts on 8 connections a
  worker, at least 16.

All but the services use one core. Each measurement has a process of its own. Memory is the growth
of the process at its peak (`VmHWM`), of a command its peak, and of a service what its processes
have in proportion (`Pss`). Figures are medians of the rounds. Results: results/growth.json.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import orjson
from processes import megabytes, reset_peaks
from record import in_turn, median_row, record, seconds
from sentences import bundled, paragraphs, sentences
from threadpoolctl import threadpool_limits
from wrk import Posting, post

from polyseme.client.local import LocalModel
from polyseme.engine.layers import contextualize
from polyseme.models.reader import read_model

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.http.service import running

LENGTHS = tuple(2**n for n in range(4, 15))
FITTED_FROM = 1024
LISTS = (1, 4, 16, 64, 256, 1024)
VOCABULARIES = (10_000, 100_000, 1_000_000, 3_000_000)
DIMENSION, CHUNK = 50, 10_000
LETTERS = np.frombuffer(b"etaoinshrdlcumwfgypbvk", np.uint8)
WORKERS = (1, 2, 3, 4)
SHORT, REPEATS = 1, 5
"""Work of up to so many seconds is timed REPEATS times more in its process."""
GENSIM = (
    "import sys; from gensim.models import KeyedVectors;"
    "KeyedVectors.load_word2vec_format(sys.argv[1], no_header=True)"
)

Measured = dict[str, float]


def cost(work: Callable[[], object]) -> Measured:
    """Return the time of a call on one core and the memory at its peak."""
    with threadpool_limits(1):
        reset_peaks(["self"])
        before = megabytes("self", "VmRSS")
        times = [seconds(work)]
        peak = megabytes("self", "VmHWM") - before
        times += [seconds(work) for _ in range(REPEATS if times[0] <= SHORT else 0)]
    return {"ms": 1e3 * median(times), "peak_mb": peak}


def of_sentence(tokens: int, names: Sequence[str]) -> Measured:
    """Measure a sentence of so many tokens."""
    model = bundled()
    short, long = (" ".join(text) for text in sentences([LENGTHS[0], tokens]))

    def encode(text: str) -> object:
        found = model.tokenizer.tokens(text)[:tokens]
        return contextualize(model.inputs(found), model.layers, names)

    encode(short)
    return cost(lambda: encode(long))


def of_list(size: int) -> Measured:
    """Measure a list of texts of 8 to 60 words; the caches hold words of earlier texts."""
    model, texts = LocalModel(bundled()), paragraphs(range(8, 61))
    model.encode(list(islice(texts, max(LISTS))), include=["contextual"])
    batch = list(islice(texts, size))
    measured = cost(lambda: model.encode(batch, include=["contextual"]))
    return {"us_a_text": 1e3 * measured.pop("ms") / size, **measured}


def of_model(folder: Path) -> Measured:
    """Measure a model's first sentence, and the sentences after it."""
    rng = np.random.default_rng(1)
    known = read_model(folder).vocabulary.word
    texts = [" ".join(map(known, rng.integers(VOCABULARIES[0], size=20))) for _ in range(1000)]
    with threadpool_limits(1):
        began = time.perf_counter()
        model = LocalModel(read_model(folder))
        model.encode(texts[:1])
        first = time.perf_counter() - began
        rest = seconds(lambda: [model.encode([text]) for text in texts[1:]])
    return {"first_sentence_ms": 1e3 * first, "us_a_sentence": 1e6 * rest / (len(texts) - 1)}


def of_command(command: Sequence[str | Path]) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MB."""
    began, quiet = time.perf_counter(), subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)  # noqa: S603 - our own commands
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"A command failed: {command}")
    return time.perf_counter() - began, used.ru_maxrss * 1.024e-3


def synthetic_words(count: int) -> list[str]:
    """Return different words; short words tend to come first, as in files sorted by frequency."""
    rng = np.random.default_rng(1)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        lengths = rng.integers(3, 14, size=CHUNK)
        letters = rng.choice(LETTERS, size=int(lengths.sum())).tobytes().decode()
        ends = np.cumsum(lengths)
        distinct |= dict.fromkeys(
            letters[end - length : end] for end, length in zip(ends, lengths, strict=True)
        )
    drawn = list(distinct)[:count]
    order = np.argsort([len(word) for word in drawn] + rng.normal(0, 5, count), kind="stable")
    return [drawn[i] for i in order]


def write_glove(path: Path, count: int) -> None:
    """Write a file of `count` words and normally distributed values."""
    rng = np.random.default_rng(1)
    vocabulary = synthetic_words(count)
    with path.open("wb") as out:
        for start in range(0, count, CHUNK):
            part = vocabulary[start : start + CHUNK]
            rows = np.round(rng.normal(0, 0.4, (len(part), DIMENSION)), 5)
            for word, row in zip(part, rows, strict=True):
                numbers = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
                out.write(b"%s %s\n" % (word.encode(), numbers[1:-1].replace(b",", b" ")))


def of_vocabulary(size: int) -> Measured:
    """Measure the import and the use of a file with so many words."""
    with tempfile.TemporaryDirectory() as scratch:
        file, models = Path(scratch, "glove.txt"), Path(scratch, "models")
        write_glove(file, size)
        load_s, load_mb = of_command([sys.executable, "-c", GENSIM, file])
        command = [sys.executable, "-m", "polyseme", "models", "import", file, "--models-dir"]
        import_s, import_mb = of_command([*command, models])
        mb = sum(path.stat().st_size for path in models.glob("*/*")) / 1e6
        imported = {"gensim_s": load_s, "gensim_mb": load_mb, "import_s": import_s}
        imported |= {"import_mb": import_mb, "model_mb": mb}
        return imported | apart(of_model, models / "glove")


def of_workers(count: int, rounds: int) -> Measured:
    """Measure a service with so many workers."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(Path(scratch), workers=count) as service,
    ):
        texts = [" ".join(text) for text in sentences([20] * 2000)]
        bodies = [orjson.dumps({"input": text, "encoding": "base64"}) for text in texts]
        file = Path(scratch, "bodies")
        file.write_bytes(b"\n".join(bodies) + b"\n")
        posting = Posting(file, "application/json", connections=8 * max(count, 2), seconds=3)
        post(service, "/v1/encode", posting)
        runs = [post(service, "/v1/encode", posting)._asdict() for _ in range(rounds)]
        processes = [service.process.pid, *service.workers()]
        pss = sum(megabytes(process, "Pss") for process in processes)
    return {**median_row(runs, 2), "memory_mb": pss}


def apart(function: Callable[..., Measured], *arguments: object) -> Measured:
    """Call a function in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def exponents(table: dict[str, Measured]) -> Measured:
    """Return the exponent of each measure of long sentences, by least squares on logarithms."""
    long = [n for n in table if int(n) >= FITTED_FROM]
    x = np.log([int(n) for n in long])
    return {
        name: round(float(np.polyfit(x, np.log([table[n][name] for n in long]), 1)[0]), 2)
        for name in table[long[0]]
    }


@click.command()
@click.option("--longest", default=16_384)
@click.option("--words", "most", default=3_000_000)
@click.option("--rounds", default=3)
def main(longest: int, most: int, rounds: int) -> None:
    """Run the benchmark."""

    def table(sizes: Sequence[int], measure: Callable[[int], Measured], rounds: int) -> Any:
        def shown(size: int) -> Measured:
            measured = measure(size)
            click.echo(f"{size:>9,} {measured}")
            return measured

        runs = in_turn({str(size): lambda size=size: shown(size) for size in sizes}, rounds)
        return {size: median_row(rows, 2) for size, rows in runs.items()}

    lengths = [n for n in LENGTHS if n <= longest]
    sentence = {
        name: table(lengths, lambda n, arrays=arrays: apart(of_sentence, n, arrays), rounds)
        for name, arrays in {"with attention": ("weights",), "without": ()}.items()
    }
    results = {
        "rounds": rounds,
        "exponents": {name: exponents(rows) for name, rows in sentence.items()},
        "tokens": sentence,
        "texts in a list": table(LISTS, lambda n: apart(of_list, n), rounds),
        "words of a vocabulary": table([n for n in VOCABULARIES if n <= most], of_vocabulary, 1),
        "workers": table(WORKERS, lambda n: of_workers(n, rounds), 1),
    }
    record("growth", ["numpy", "gensim", "gunicorn"], results)


if __name__ == "__main__":
    main()
