"""Train Word2Vec and fastText vectors with gensim, import them, and measure the models.

    python lab/studies/testbed.py --corpus enwiki.txt.zst --eval FOLDER --work FOLDER
        [--words 30000000] [--threads 2] [--output lab/results/testbed.json]

The files of `imported.py` are small excerpts of published vectors; these are whole files that
nobody selected: skip-gram, CBOW and fastText vectors of 100 dimensions of at most 100,000
words. Each is imported by default and with `--texts`, and measured on the sets that the bundled
model is measured on: senses of CoarseWSD-20 and pseudo-words, tags (a linear probe), and sentence
similarity. Lines of the corpus with a sentence of the pseudo-words are left out. No constant was
chosen by these figures. Files of vectors that exist in the work folder are not trained again.
"""

import re
import tarfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
from gensim.models import FastText, Word2Vec
from gensim.models.fasttext import save_facebook_model
from lab.studies.imported import document

from polyseme.client.local import LocalModel
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.importing.texts import TextSample
from polyseme.models.reader import read_model
from polyseme.progress import ConsoleProgress
from polyseme.tokenizer import words
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.evaluation.downstream import (
    measure_pseudowords,
    measure_sentences,
    measure_tagging,
    read_pseudowords,
)
from polyseme_lab.evaluation.results import Results
from polyseme_lab.evaluation.sense_induction import measure_senses
from polyseme_lab.training.corpus import read_lines, sha256

SETTINGS: dict[str, Any] = {
    "vector_size": 100,
    "window": 5,
    "negative": 5,
    "sample": 1e-4,
    "min_count": 5,
    "max_final_vocab": 100_000,
    "epochs": 1,
    "seed": 1,
}
WAYS = {
    "skip-gram": lambda **more: Word2Vec(sg=1, **SETTINGS, **more),
    "CBOW": lambda **more: Word2Vec(sg=0, **SETTINGS, **more),
    "fastText": lambda **more: FastText(sg=1, bucket=200_000, **SETTINGS, **more),
}
TAGGING = ("static", "features", "window")
_COMPARED = 8
"""Number of words by which a sentence of the pseudo-words is found in the corpus."""


def usable(corpus: Path, pseudowords: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines without a sentence of the pseudo-words, and their words."""
    pairs = read_pseudowords(pseudowords)
    probes = {_probe(*occurrence) for pair in pairs for occurrence in pair.occurrences}
    for line in read_lines(corpus):
        tokens = [line[start:end] for start, end in words(line)]
        grams = zip(*(tokens[shift:] for shift in range(_COMPARED)), strict=False)
        if probes.isdisjoint(grams):
            yield line.strip(), tokens


def _probe(tokens: Sequence[str], hidden: int) -> tuple[str, ...]:
    """Return the first words of a sentence without the hidden one in a row, all if it is short."""
    starts = range(len(tokens) - _COMPARED + 1)
    first = next((start for start in starts if not start <= hidden < start + _COMPARED), 0)
    return tuple(tokens[first : first + _COMPARED])


def write_corpus(corpus: Path, pseudowords: Path, target: Path, number: int) -> None:
    """Write about `number` words of the corpus, tokenized, and the text of the same lines."""
    count = 0
    with target.open("w", encoding="utf-8") as file, texts_of(target).open("w") as texts:
        for line, tokens in usable(corpus, pseudowords):
            file.write(" ".join(tokens) + "\n")
            texts.write(line + "\n")
            count += len(tokens)
            if count >= number:
                return


def texts_of(target: Path) -> Path:
    """Return the file with the text of the lines."""
    return target.with_suffix(".lines.txt")


def trained(name: str, corpus: Path, folder: Path, threads: int) -> tuple[Path, float]:
    """Return the file of vectors, and the seconds of its training, 0 if it existed."""
    path = folder / f"{name}.bin"
    if path.exists():
        return path, 0.0
    start = time.perf_counter()
    model = WAYS[name](corpus_file=str(corpus), workers=threads)
    if isinstance(model, FastText):
        save_facebook_model(model, str(path))
    else:
        model.wv.save_word2vec_format(str(path), binary=True)
    return path, time.perf_counter() - start


def measured(model: LocalModel, eval_folder: Path, downstream: Path) -> dict[str, Any]:
    """Return the figures of one model by set and system."""
    progress = ConsoleProgress()
    sets: dict[str, Results] = {
        **measure_senses(model.model, eval_folder, progress=progress),
        "nearest centroids": measure_pseudowords(model, eval_folder / "pseudowords.jsonl.xz"),
        "tags": measure_tagging(model, downstream / "pos", names=TAGGING),
        "sentences": measure_sentences(model, downstream / "sts/dev.tsv"),
    }
    return {name: _figures(results) for name, results in sets.items()}


def _figures(results: Results) -> dict[str, Any]:
    """Return the figures of each system without those of each word."""
    systems: dict[str, Any] = {}
    for row in results.rows:
        systems[row.name] = {name: figure._asdict() for name, figure in row.figures.items()}
        if words := row.facts.get("words"):
            several = sum(word.get("found", 0) > 1 for word in words.values())
            systems[row.name]["several_senses_found"] = several
    return systems


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--eval", "eval_folder", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--words", "number", default=30_000_000, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--only", help="One of skip-gram, CBOW and fastText.")
@click.option("--output", type=click.Path(path_type=Path))
def main(
    corpus: Path,
    eval_folder: Path,
    work: Path,
    number: int,
    threads: int,
    only: str | None,
    output: Path | None,
) -> None:
    """Run the testbed."""
    work.mkdir(parents=True, exist_ok=True)
    tokenized = work / "corpus.txt"
    if not tokenized.exists():
        new = work / "corpus.new.txt"
        write_corpus(corpus, eval_folder / "pseudowords.jsonl.xz", new, number)
        texts_of(new).rename(texts_of(tokenized))
        new.rename(tokenized)
    with tarfile.open(eval_folder / "downstream.tar.xz") as archive:
        archive.extractall(work, filter="data")
    files: dict[str, Any] = {}
    for name in [only] if only else WAYS:
        file, seconds = trained(name, tokenized, work, threads)
        for way in ("default", "with --texts"):
            sample = None
            if way != "default":
                with texts_of(tokenized).open(encoding="utf-8") as texts:
                    sample = TextSample.of(texts)
            start = time.perf_counter()
            folder = work / re.sub(r"\W+", "-", f"{name} {way}")
            import_vectors(file, folder, ImportOptions(texts=sample, replace=True))
            figures: dict[str, Any] = {"import_seconds": round(time.perf_counter() - start, 1)}
            model = LocalModel(read_model(folder))
            figures |= measured(model, eval_folder, work / "downstream")
            size = model.model.manifest.vocabulary_size
            facts = {"sha256": sha256(file), "words": size, "seconds": round(seconds, 1)}
            files.setdefault(name, {**facts, "ways": {}})["ways"][way] = figures
            click.echo(f"{name}, {way}: {figures}")
    if output:
        data = [corpus, *islice(sorted(eval_folder.iterdir()), 8)]
        results = {"settings": SETTINGS, "tokens": number, "files": files}
        write_json(output, document(data, results))


if __name__ == "__main__":
    main()
