"""`--texts`: what texts tell about the words of an import or of a model."""

import json

import numpy as np
import pytest

from polyseme.importing import texts
from polyseme.importing.texts import TextSample, count_words
from polyseme.models.reader import read_model
from polyseme.progress import Progress
from tests.importing import files
from tests.importing.conftest import run

pytest.importorskip("pyarrow")

LINES = ["the fire", "the the Zebra", "unknown"]


def test_words_are_counted_for_the_entry_that_is_used_for_them():
    counts = count_words(["Apple apple APPLE, banana", "Bank bank"], ["apple", "Apple", "bank"])
    # APPLE is looked up as apple, Bank as bank.
    assert counts.tolist() == [2, 1, 2]
    assert count_words([["Apple", "an apple", ""]], ["apple", "Apple", "an"]).tolist() == [0, 1, 0]


def test_words_of_texts_without_spaces_are_counted(capsys):
    words = ["銀行", "は", "行", "river"]
    counts = count_words(["銀行は銀行は鑄、銀", "river銀行"], words, Progress())
    assert counts.tolist() == [3, 2, 0, 1]
    assert "segment the texts" not in capsys.readouterr().err
    count_words(["私が働くのは銀行"], words, Progress())
    assert "segment the texts" in capsys.readouterr().err


def test_a_sample_of_many_texts_is_random_and_the_same_each_time(monkeypatch):
    monkeypatch.setattr(texts, "MAX_TEXTS", 100)
    every = [str(number) for number in range(10_000)]
    sample, again = TextSample.of(iter(every)), TextSample.of(iter(every))
    assert sample.texts == again.texts and len(set(sample.texts)) == 100
    assert 4000 < np.mean([int(one) for one in sample.texts]) < 6000
    assert sample.facts == {"texts": 10_000, "sample": 100}


def test_a_long_text_is_divided_between_words(monkeypatch):
    monkeypatch.setattr(texts, "MAX_CHARACTERS", 10)
    long = "alpha beta gamma " + "x" * 25
    parts = TextSample.of([long, "  "]).texts
    assert "".join(parts) == long and max(map(len, parts)) <= 10
    assert [part.strip() for part in parts[:2]] == ["alpha", "beta"]
    monkeypatch.setattr(texts, "MAX_WORDS", 2)
    assert TextSample.of([["a", "b", "c"], [], ["", " "]]).texts == [["a", "b"], ["c"]]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus.jsonl", LINES)


def write_corpus(path, texts, column="text"):
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts))
    return path


WORDS = ["zebra", "fire", "the"]
CONTENT = files.rows(WORDS, np.array([[1, 2, 3], [2, 0, 1], [0, 1, 1]], np.float32))
COUNTS = np.array([1, 1, 3])


def assert_counted(model):
    p = COUNTS / COUNTS.sum()
    np.testing.assert_allclose(model.word_bias, np.log(1e-3 / (1e-3 + p)), rtol=1e-5)
    assert model.manifest.training["informativeness"] == "counts in texts"
    facts = {"files": ["corpus.jsonl"], "texts": 3, "sample": 3}
    assert model.manifest.training["texts"] == facts


def test_texts_give_the_frequencies_of_an_unsorted_file(importer, tmp_path):
    lists = [line.split() for line in LINES]
    corpus = write_corpus(tmp_path / "corpus.jsonl", lists, "body")
    done = importer.run(CONTENT, "--name", "made", "--texts", corpus, "--column", "body")
    assert done.code == 0, done.err
    assert "Warning" not in done.err
    assert_counted(read_model(importer.models / "made"))


def tune(importer, name, corpus):
    """Tune a model to texts; return the model before and after."""
    before = read_model(importer.models / name)
    done = run("models", "tune", name, "--texts", corpus, "--models-dir", importer.models)
    assert done.code == 0, done.err
    return before, read_model(importer.models / name)


def test_a_model_is_tuned_to_texts(importer, corpus):
    importer.run(CONTENT, "--name", "made")
    before, tuned = tune(importer, "made", corpus)
    assert_counted(tuned)
    assert np.array_equal(tuned.vectors, before.vectors)
    assert tuned.manifest.source == before.manifest.source
    # The same weights as those of an import with texts.
    importer.run(CONTENT, "--name", "other", "--texts", corpus)
    other = read_model(importer.models / "other")
    assert np.array_equal(other.layers[0].key.weight, tuned.layers[0].key.weight)
    assert np.array_equal(other.whitening.weight, tuned.whitening.weight)
    assert not np.array_equal(other.whitening.weight, before.whitening.weight)
    # Parameter-free attention remains.
    importer.run(CONTENT, "--name", "free", "--no-weights")
    _, free = tune(importer, "free", corpus)
    assert free.word_bias is None and free.layers[0].value.weight is None
    assert free.manifest.training["attention"] == "parameter-free"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n", "--texts has no text."),
        ("другой язык\n", "The texts have no word of the file; give texts of its language."),
    ],
)
def test_texts_that_tell_nothing_are_rejected(importer, tmp_path, content, message):
    path = tmp_path / "corpus.txt"
    path.write_text(content)
    done = importer.run(CONTENT, "--name", "made", "--texts", path)
    assert done.code == 1
    assert message in done.err
    assert not any(importer.models.iterdir())


def test_the_bundled_model_is_not_tuned(corpus, importer):
    done = run("models", "tune", "wiki-en", "--texts", corpus, "--models-dir", importer.models)
    assert done.code == 1
    assert "cannot be tuned" in done.err
