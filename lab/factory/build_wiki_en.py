"""Train the bundled model `wiki-en`: cased Word2Vec vectors with trained attention weights.

    make model      (or: python lab/factory/build_wiki_en.py --corpus FOLDER --tags ARCHIVE)

1. `wiki_text.py` reads every `*.txt.zst` of the corpus folder, a paragraph per line, counts words,
   and selects the vocabulary;
2. gensim trains skip-gram vectors on one thread, so that runs on one machine give identical files
   (the Makefile sets PYTHONHASHSEED=0);
3. `wiki_layer.py` initializes the heads in closed form;
4. `polyseme train` trains weights and vectors on the sense tags (--tags) and the same text, with
   `wiki-en-recipe.json`; without tags, this step is skipped;
5. the values are folded into the vectors, which are quantized to int8, and subword vectors and
   the whitening of sentence vectors are computed;
6. most of the mean context is subtracted from each context, and `models/wiki-en` is
   written.

Steps 1 to 4 store their results in the work folder, and are skipped if the results exist.
"""

import json
from pathlib import Path
from typing import Any

import click
import gensim
import numpy as np
from gensim.models import Word2Vec
from lab.factory.wiki_layer import CENTERED, centered, fold_values, start
from lab.factory.wiki_text import prepare

from polyseme.engine.quantization import quantize
from polyseme.importing.closed_form import informativeness, sentence_whitening
from polyseme.importing.subwords import NGRAMS, fit_subwords
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model
from polyseme_lab.commands.train import corpus_options, run_train
from polyseme_lab.evaluation.measure import quality

WIDTH, EPOCHS, SEED = 300, 4, 1
WORD2VEC = {"sg": 1, "negative": 5, "window": 6, "sample": 1e-4, "min_count": 1, "workers": 1}
NGRAM_ROWS = 36_400
"""Number of n-gram vectors, chosen so that the model has at most 45 MB."""
ROOT = Path(__file__).parents[2]
RECIPE = Path(__file__).with_name("wiki-en-recipe.json")
STARTED, TRAINED = "wiki-en-start", "wiki-en-trained"
NOTICE = """\
The model wiki-en (c) the Polyseme authors is licensed under the Creative Commons
Attribution-ShareAlike 3.0 Unported License (CC BY-SA 3.0):
https://creativecommons.org/licenses/by-sa/3.0/legalcode

It is derived from the text of English Wikipedia and Simple English Wikipedia, which is
by their contributors and available under the same licence:
https://en.wikipedia.org and https://simple.wikipedia.org

Its weights were learned with the help of the sense annotations of SemCor and MASC that
Google published under the Creative Commons Attribution 4.0 International License:
https://github.com/google-research-datasets/word_sense_disambigation_corpora
"""


def train_vectors(work: Path, summary: dict[str, Any]) -> None:
    """Train the vectors and save them as `vectors.npy` in the work folder."""
    model = Word2Vec(vector_size=WIDTH, seed=SEED, epochs=EPOCHS, **WORD2VEC)
    model.build_vocab_from_freq(summary["counts"], corpus_count=summary["lines"])
    model.train(
        corpus_file=str(work / "corpus.txt"),
        total_examples=summary["lines"],
        total_words=summary["tokens"],
        epochs=EPOCHS,
    )
    rows = [model.wv.key_to_index[word] for word in summary["counts"]]
    np.save(work / "part.npy", model.wv.vectors[rows])
    (work / "part.npy").rename(work / "vectors.npy")


def write_start(work: Path, summary: dict[str, Any]) -> None:
    """Write the initial model of the training into the work folder."""
    vectors = np.load(work / "vectors.npy")
    counts = np.array(list(summary["counts"].values()), np.float64)
    frequencies = counts / counts.sum()
    layers, word_bias = [start(vectors, frequencies)], informativeness(frequencies)
    write_model(work / STARTED, list(summary["counts"]), vectors, layers, word_bias, cased=True)


def train_attention(work: Path, corpus: Path, tags: Path, recipe: Path) -> None:
    """Train the initial model, from the checkpoint if there is one."""
    checkpoints = work / "checkpoints"
    options = ["--resume"] if checkpoints.exists() else []
    run_train(
        *("--models-dir", work, "--replace", "--model", STARTED, "--output", TRAINED),
        *("--recipe", recipe, "--tags", tags, *corpus_options(corpus)),
        *("--checkpoints", checkpoints, *options),
    )


def facts_of(summary: dict[str, Any], model: Model) -> dict[str, Any]:
    """Return the fields of the manifest."""
    return {
        "cased": True,
        "languages": ["en"],
        "licence": "CC-BY-SA-3.0",
        "source": "English and Simple English Wikipedia (CC BY-SA 3.0), with the sense tags of"
        " SemCor and MASC (CC BY 4.0), trained by this project",
        "training": {
            "script": "lab/factory/build_wiki_en.py",
            "vectors": {
                "program": f"gensim {gensim.__version__} Word2Vec",
                "settings": {**WORD2VEC, "vector_size": WIDTH, "epochs": EPOCHS, "seed": SEED},
                "tokens": summary["tokens"],
            },
            **(model.manifest.training or {"attention": "closed form, four heads"}),
            "folded": "the vectors are the values of attention, rounded to int8",
        },
    }


def write(
    work: Path, summary: dict[str, Any], corpus: Path, data: Path | None, folder: Path
) -> None:
    """Write the model folder; if `data` is given, with evaluation results in the manifest."""
    model = read_model(work / (TRAINED if (work / TRAINED).exists() else STARTED))
    values, layer = fold_values(model.vectors, model.layers[0])
    table, facts = quantize(values), facts_of(summary, model)
    words = list(summary["counts"])
    subwords = fit_subwords(words, table, NGRAM_ROWS)
    if subwords:
        facts["training"]["subwords"] = {"rows": NGRAM_ROWS, "ngrams": list(NGRAMS)}

    whitening = sentence_whitening(table, model.word_bias)

    def write_folder() -> None:
        more = {"subwords": subwords, "whitening": whitening, **facts}
        write_model(folder, words, table, [layer], model.word_bias, **more)

    write_folder()
    layer = centered(read_model(folder), corpus)
    facts["training"]["centered"] = CENTERED
    write_folder()
    if data:
        facts["quality"] = quality(read_model(folder), data)
        write_folder()
    (folder / "LICENSE").write_text(NOTICE)


_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option("--corpus", type=_folder, required=True)
@click.option("--tags", type=click.Path(path_type=Path, exists=True), help="Tags for step 4.")
@click.option("--recipe", type=click.Path(path_type=Path, exists=True), default=RECIPE)
@click.option("--data", type=_folder, help="Folder of evaluation sets to measure the model on.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/wiki-en"))
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "models" / "wiki-en")
def main(
    corpus: Path, tags: Path | None, recipe: Path, data: Path | None, work: Path, output: Path
) -> None:
    """Build `models/wiki-en`."""
    work.mkdir(parents=True, exist_ok=True)
    click.echo(f"gensim {gensim.__version__}, numpy {np.__version__}", err=True)
    if not (work / "counts.json").exists():
        prepare(corpus, work)
    summary = json.loads((work / "counts.json").read_text())
    if not (work / "vectors.npy").exists():
        train_vectors(work, summary)
    if not (work / STARTED).exists():
        write_start(work, summary)
    if tags and not (work / TRAINED).exists():
        train_attention(work, corpus, tags, recipe)
    write(work, summary, corpus, data, output)


if __name__ == "__main__":
    main()
