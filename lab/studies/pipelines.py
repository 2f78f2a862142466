"""Measure what pipelines of spaCy and scikit-learn learn from Polyseme's vectors and from others.

    OMP_NUM_THREADS=1 python lab/studies/pipelines.py FOLDER

FOLDER has downstream.tar.xz and coarsewsd.tar.xz. spaCy trains a tagger on `pos/` and an entity
recognizer on `ner/` with the configuration of docs/integrations.md (`features`), with static
vectors in `polyseme.Tok2Vec.v1` (`static`), with the bundled model's table of static vectors in
spaCy's own layer (`spacy-static`), with the layers that `spacy init config` writes
(`spacy-default`), and with features and its hash embeddings (`both`). It trains on `train.tsv` and
is measured on `dev.tsv`; nothing is chosen by that score. scikit-learn classifies texts by tf-idf,
by sentence vectors, and by both.
"""

import io
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import numpy as np
import spacy
from benchmarks.record import record
from lab.studies.imported import downstream_sets
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_union
from spacy.ml.staticvectors import StaticVectors
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_pipeline
from spacy.vectors import Vectors
from thinc.api import Config, Maxout, Model, chain, ragged2list, with_array

import polyseme
from polyseme.integrations.sklearn import ContextualVectorizer
from polyseme_lab.evaluation.coarsewsd import ambiguous_words
from polyseme_lab.evaluation.datasets import read_archive
from polyseme_lab.evaluation.downstream import (
    LabeledWords,
    read_tagged_sentences,
    span_f1,
    tag_accuracy,
)

RESULTS = Path(__file__).parents[1] / "results"
PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
PACKAGES = ["numpy", "scikit-learn", "spacy", "thinc"]

# spaCy

WIDTH, EPOCHS, BATCH_WORDS, SEED = 128, 4, 500, 1
TASKS = {"pos": "tagger", "ner": "ner"}
"""The folder of the data, and the component that learns it."""
SPACY_WIDTH = 96
"""The width in the configuration that `spacy init config` writes."""
HASHED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": SPACY_WIDTH,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
WINDOWS = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": SPACY_WIDTH,
    "depth": 4,
    "window_size": 1,
    "maxout_pieces": 3,
}
OWN = {"@architectures": "polyseme.Tok2Vec.v1", "width": WIDTH}
SYSTEMS: dict[str, dict[str, Any]] = {
    "spacy-static": {"@architectures": "benchmarks.StaticVectors.v1", "width": WIDTH},
    "spacy-default": {"@architectures": "spacy.Tok2Vec.v2", "embed": HASHED, "encode": WINDOWS},
    "static": OWN | {"vectors": "static"},
    "features": OWN,
    "both": OWN | {"embed": HASHED},
}
"""The model of the component `tok2vec` in each system."""


@spacy.registry.architectures("benchmarks.StaticVectors.v1")
def static_vectors(width: int) -> Model[list[Doc], list[Any]]:
    """Build spaCy's MultiHashEmbed with its static vectors and without hashed attributes."""
    dense = Maxout(width, width, nP=3, dropout=0.0, normalize=True)
    tok2vec = chain(StaticVectors(width, dropout=0.0), with_array(dense), ragged2list())
    tok2vec.set_dim("nO", width)
    return tok2vec


def configuration(task: str, system: str, folder: Path, epochs: int) -> Config:
    """Return the configuration of docs/integrations.md for one task and system."""
    (block,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    config = Config().from_str(block, interpolate=False)
    component = TASKS[task]
    config["nlp"]["pipeline"] = ["tok2vec", component]
    del config["components"][next(other for other in TASKS.values() if other != component)]
    config["components"]["tok2vec"]["model"] = deepcopy(SYSTEMS[system])
    width = SPACY_WIDTH if system == "spacy-default" else WIDTH
    config["components"][component]["model"]["tok2vec"]["width"] = width
    config["paths"] = {name: str(folder / f"{task}-{name}.spacy") for name in ("train", "dev")}
    config["training"] = {
        "seed": SEED,
        "max_epochs": epochs,
        "patience": 0,
        "eval_frequency": 1_000_000,  # nothing is chosen by scores on the way
        "batcher": {"@batchers": "spacy.batch_by_words.v1", "size": BATCH_WORDS, "tolerance": 0.2},
    }
    if system == "spacy-static":
        config["initialize"] = {"vectors": str(folder / "vectors")}
    return spacy.util.load_model_from_config(config, auto_fill=True).config


def write_corpus(sentences: Sequence[LabeledWords], task: str, file: Path) -> None:
    """Write a corpus of spaCy, with a document for each sentence."""
    vocab, labels = spacy.blank("en").vocab, "tags" if task == "pos" else "ents"
    docs = [Doc(vocab, words=[*s.words], **{labels: [*s.tags]}) for s in sentences]
    DocBin(docs=docs).to_disk(file)


def write_vectors(folder: Path) -> None:
    """Write the static vectors of the bundled model as spaCy loads them."""
    model = polyseme.load().model
    rows = np.arange(len(model.rows))
    words = [model.vocabulary.word(row) for row in rows.tolist()]
    nlp = spacy.blank("en")
    table = np.asarray(model.rows[rows], np.float32)
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=table, keys=words)
    nlp.to_disk(folder)


def tags_of(docs: Iterable[Doc], task: str) -> Iterator[str]:
    """Yield the predicted tags of all tokens, BIO for entities."""
    for token in (token for doc in docs for token in doc):
        if task == "pos":
            yield token.tag_
        else:
            yield f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O"


def train(
    task: str, system: str, data: dict[str, Sequence[LabeledWords]], folder: Path, epochs: int
) -> list[str]:
    """Train a pipeline on `data["train"]`, and return the predicted tags of `data["dev"]`."""
    for split, sentences in data.items():
        write_corpus(sentences, task, folder / f"{task}-{split}.spacy")
    nlp = init_nlp(configuration(task, system, folder, epochs))
    train_pipeline(nlp, stdout=io.StringIO(), stderr=io.StringIO())
    docs = nlp.pipe(Doc(nlp.vocab, words=[*sentence.words]) for sentence in data["dev"])
    return list(tags_of(docs, task))


def trained(folder: Path) -> dict[str, Any]:
    """Return the scores of each task and system, with intervals over the sentences."""
    scores: dict[str, Any] = {}
    write_vectors(folder / "vectors")
    for task in TASKS:
        data = {
            split: read_tagged_sentences(folder / task / f"{split}.tsv")
            for split in ("train", "dev")
        }
        score = tag_accuracy if task == "pos" else span_f1
        for system in SYSTEMS:
            start = time.perf_counter()
            interval = score(data["dev"], train(task, system, data, folder, EPOCHS))
            seconds = round(time.perf_counter() - start)
            scores.setdefault(system, {})[task] = {**interval._asdict(), "seconds": seconds}
            click.echo(f"{task} {system:<14} {scores[system][task]}")
    return scores


# scikit-learn

SIZES = (100, 1000)
DRAWS = {"entity": 5, "senses": 1}
"""Number of samples of training texts in each task; `senses` has ten tasks."""
VECTORIZERS = {
    "tf-idf": lambda: TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    "vectors": ContextualVectorizer,
    "both": lambda: make_union(VECTORIZERS["tf-idf"](), VECTORIZERS["vectors"]()),
}
Texts = tuple[list[str], NDArray[Any]]


def entity_texts(folder: Path) -> dict[str, tuple[Texts, Texts]]:
    """Return the training and test texts of one task: does a message name an entity?"""
    splits = []
    for split in ("train", "dev"):
        sentences = read_tagged_sentences(folder / "ner" / f"{split}.tsv")
        labels = [any(tag != "O" for tag in sentence.tags) for sentence in sentences]
        splits.append(([" ".join(s.words) for s in sentences], np.array(labels)))
    return {"entity": (splits[0], splits[1])}


def sense_texts(archive: Path) -> dict[str, tuple[Texts, Texts]]:
    """Return training and test texts of ten tasks: which sense does a word have in a sentence?"""
    return {
        word.name: tuple(
            ([" ".join(words) for words, _ in part.occurrences], part.senses)
            for part in (word.train, word.test)
        )
        for word in ambiguous_words(read_archive(archive))
    }


def macro_f1(train: Texts, test: Texts, vectorizer: Any) -> float:
    """Return the macro-F1 in % of a logistic regression whose C is chosen on the training texts."""
    classifier = LogisticRegression(class_weight="balanced", max_iter=1000)
    search = GridSearchCV(classifier, {"C": [1, 10, 100]}, scoring="f1_macro", cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rare sense may be in fewer than three training texts
        search.fit(vectorizer.fit_transform(train[0]), train[1])
    predicted = search.predict(vectorizer.transform(test[0]))
    return 100 * float(f1_score(test[1], predicted, average="macro"))


def classified(tasks: dict[str, tuple[Texts, Texts]], draws: int) -> dict[str, dict[str, float]]:
    """Return the mean macro-F1 of tasks and draws by vectorizer and number of training texts."""
    means: dict[str, dict[str, float]] = {}
    for name, make in VECTORIZERS.items():
        for size in SIZES:
            scores = []
            for (texts, labels), test in tasks.values():
                for draw in range(draws):
                    rows = np.random.default_rng(draw).permutation(len(texts))[:size]
                    train = ([texts[row] for row in rows], labels[rows])
                    scores.append(macro_f1(train, test, make()))
            means.setdefault(name, {})[str(size)] = round(float(np.mean(scores)), 1)
        click.echo(f"{name:<14} {means[name]}")
    return means


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Run the benchmark."""
    with downstream_sets(folder / "downstream.tar.xz") as sets:
        texts = {
            "entity": classified(entity_texts(sets), DRAWS["entity"]),
            "senses": classified(sense_texts(folder / "coarsewsd.tar.xz"), DRAWS["senses"]),
        }
        results = {
            "spacy": trained(sets),
            "epochs": EPOCHS,
            "width": WIDTH,
            "sklearn": texts,
            "draws": DRAWS,
        }
    record("pipelines", PACKAGES, results, RESULTS)


if __name__ == "__main__":
    main()
