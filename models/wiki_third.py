"""The third edition of `wiki-en`: the second edition trained further, with subword vectors.

    python models/wiki_third.py --corpus FOLDER --tags FILE --pseudowords FILE --work build/third

1. Paragraphs that share eight words in a row with the evaluation's pseudo-words are removed from
   the corpus, and the words themselves are never targets;
2. the heads for the left and the right neighbor attend to just that word (`start`);
3. `polyseme train` continues from there, by `wiki-third-recipe.json`;
4. part of what all contexts share is taken out of the vectors (`centered`), subword vectors are
   fitted, rows are rounded to int8, and `models/wiki-en` is written.

Each step keeps its result in the work folder and is skipped when that is there.
"""

import io
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import zstandard

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer, Projection, contextualize
from polyseme.engine.quantization import quantize
from polyseme.evaluation.measure import quality
from polyseme.importing.subwords import fit_subwords
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model
from polyseme.training.config import COARSEWSD

HERE = Path(__file__).parent
RECIPE = HERE / "wiki-third-recipe.json"
STARTED, TRAINED = "wiki-en-second", "wiki-en-third"
SHARED = 8
"""Words in a row that a paragraph must not share with a sentence of the evaluation."""
_WORD = re.compile(r"[^\W\d_]+")
LEFT, RIGHT = 2, 3
"""The heads for the neighbor on either side."""
BUCKETS = 38_000
CENTERED = 0.5
"""The share of the mean context that is taken out of the vectors."""
SENTENCES = 1500
"""Sentences over which the mean context is taken."""


def sequences(text: str) -> Iterator[int]:
    """Yield the hash of every eight words in a row, without case, numbers and punctuation."""
    words = _WORD.findall(text.lower())
    for start in range(len(words) - SHARED + 1):
        yield hash(tuple(words[start : start + SHARED]))


def filter_corpus(corpus: Path, pseudowords: Path, work: Path) -> set[str]:
    """Write the corpus without paragraphs of the evaluation; return the words of the pairs."""
    seen: set[int] = set()
    words: set[str] = set()
    with lzma.open(pseudowords, "rt", encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            words.update(pair["words"])
            for one in pair["occurrences"]:
                seen.update(sequences(" ".join(one["tokens"])))
    for source in sorted(corpus.glob("*.txt.zst")):
        target = work / source.name
        if target.exists():
            continue
        kept = removed = 0
        part = target.with_suffix(".part")
        with (
            zstandard.open(source, "rb") as raw,
            zstandard.open(part, "wb", cctx=zstandard.ZstdCompressor(3)) as out,
        ):
            for line in io.TextIOWrapper(raw, "utf-8"):
                if seen.isdisjoint(sequences(line)):
                    out.write(line.encode())
                    kept += 1
                else:
                    removed += 1
        part.rename(target)
        click.echo(f"{source.name}: {kept:,} paragraphs kept, {removed:,} removed", err=True)
    return words


def start(layer: Layer) -> Layer:
    """Return the layer with heads LEFT and RIGHT that attend to just the neighbor.

    Their queries are zero: which neighbor a word has does not depend on the word.
    """
    bias = layer.scoring.position_bias
    weight, query_bias = layer.query.weight, layer.query.bias
    scale = layer.scoring.word_bias_scale
    assert bias is not None  # noqa: S101 - for mypy
    assert weight is not None  # noqa: S101 - for mypy
    assert query_bias is not None  # noqa: S101 - for mypy
    assert scale is not None  # noqa: S101 - for mypy
    bias, weight, query_bias, scale = (one.copy() for one in (bias, weight, query_bias, scale))
    reach = bias.shape[1] // 2
    distances = np.arange(-reach, reach + 1)
    width = weight.shape[1] // layer.heads
    for head, side in ((LEFT, -1), (RIGHT, 1)):
        near, far = -2.0 * (np.abs(distances) - 1), -8 - 0.3 * np.abs(distances)
        bias[head] = np.where(distances * side > 0, near, far)
        weight[:, head * width : (head + 1) * width] = 0
        query_bias[head * width : (head + 1) * width] = 0
        scale[head] = 0
    scoring = replace(layer.scoring, position_bias=bias, word_bias_scale=scale)
    return replace(layer, query=Projection(weight, query_bias), scoring=scoring)


def mean_context(model: Model, corpus: Path) -> Floats:
    """Return the mean output of attention over sentences of the corpus. -> [d]"""
    total, count = np.zeros(model.manifest.dimension), 0
    with zstandard.open(corpus, "rb") as raw:
        for number, line in enumerate(io.TextIOWrapper(raw, "utf-8")):
            if number == SENTENCES:
                break
            tokens = model.tokenizer.tokens(line, "auto", 40)
            if tokens:
                found = contextualize(model.sentence(tokens), model.layers).attended
                total += found.sum(axis=0, dtype=np.float64)
                count += len(found)
    return total / count


def centered(vectors: Floats, layer: Layer, constant: Floats) -> tuple[Floats, Layer]:
    """Subtract a constant from all vectors; queries and keys stay the same. [V, d], [d]"""

    def moved(projection: Projection) -> Projection:
        assert projection.weight is not None  # noqa: S101 - for mypy
        shift = constant @ projection.weight.astype(np.float64)
        bias = shift if projection.bias is None else projection.bias + shift
        return Projection(projection.weight, bias.astype(np.float32))

    values = (vectors.astype(np.float64) - constant).astype(np.float32)
    return values, replace(layer, query=moved(layer.query), key=moved(layer.key))


def train(work: Path, words: set[str], corpus: Path, tags: Path) -> None:
    """Run `polyseme train`."""
    recipe = json.loads(RECIPE.read_text("utf-8"))
    recipe["leave_out"] = sorted({*COARSEWSD, *(word.lower() for word in words)})
    (work / "recipe.json").write_text(json.dumps(recipe))
    texts = [part for f in sorted(corpus.glob("*.txt.zst")) for part in ("--corpus", work / f.name)]
    command = [
        *(sys.executable, "-m", "polyseme", "train", "--models-dir", work, "--replace"),
        *("--model", STARTED, "--output", TRAINED, "--recipe", work / "recipe.json"),
        *("--tags", tags, *texts, "--checkpoints", work / "checkpoints"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "service"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own command


def write(work: Path, corpus: Path, data: Path | None, folder: Path) -> None:
    """Write the model folder, with measured quality if the data is given."""
    model, second = read_model(work / TRAINED), read_model(work / STARTED)
    constant = CENTERED * mean_context(model, work / min(corpus.glob("*.txt.zst")).name)
    values, layer = centered(model.vectors, model.layers[0], constant)
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    subwords = fit_subwords(words, values, BUCKETS)
    facts: dict[str, Any] = second.manifest.model_dump(
        include={"cased", "languages", "licence", "source"}
    )
    training = {key: one for key, one in model.manifest.training.items() if key != "of_base"}
    facts["training"] = {
        **training,
        "script": "models/wiki_third.py",
        "base": "wiki-en, second edition (models/build_wiki_en.py)",
        "vectors": second.manifest.training.get("vectors", {}),
        "centered": CENTERED,
        "subwords": {"buckets": BUCKETS},
    }
    rows = quantize(values)
    write_model(folder, words, rows, [layer], model.word_bias, subwords=subwords, **facts)
    if data:
        facts["quality"] = quality(read_model(folder), data)
        write_model(folder, words, rows, [layer], model.word_bias, subwords=subwords, **facts)
    (folder / "LICENSE").write_bytes((HERE / "wiki-en" / "LICENSE").read_bytes())


_file = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--corpus", type=_file, required=True)
@click.option("--tags", type=_file, required=True)
@click.option("--pseudowords", type=_file, required=True)
@click.option("--second", type=_file, default=HERE / "wiki-en", help="The second edition.")
@click.option("--data", type=_file, help="Evaluation sets, to be measured with.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/third"))
@click.option("--output", type=click.Path(path_type=Path), default=HERE / "wiki-en")
def main(
    corpus: Path,
    tags: Path,
    pseudowords: Path,
    second: Path,
    data: Path | None,
    work: Path,
    output: Path,
) -> None:
    """Build the third edition from the second."""
    work.mkdir(parents=True, exist_ok=True)
    words = filter_corpus(corpus, pseudowords, work)
    if not (work / STARTED).exists():
        model = read_model(second)
        names = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
        facts = model.manifest.model_dump(
            include={"cased", "languages", "licence", "source", "training"}
        )
        layer = start(model.layers[0])
        write_model(work / STARTED, names, model.vectors, [layer], model.word_bias, **facts)
    if not (work / TRAINED).exists():
        train(work, words, corpus, tags)
    write(work, corpus, data, output)


if __name__ == "__main__":
    main()
