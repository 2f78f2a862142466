"""`--texts`: samples of texts, and what they tell about the words of an import or of a model."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.importing import texts
from polyseme.importing.texts import StratifiedSample, TextSample, count_words
from polyseme.models.reader import read_model
from polyseme.terminal import Progress
from tests.importing import files
from tests.importing.conftest import assert_word_bias, run

pytest.importorskip("pyarrow")

LINES = ["the fire", "the the Zebra", "unknown"]


def test_the_strata_of_a_sample_have_the_same_share():
    sample = StratifiedSample(100)
    for form, count in (("Bank", 10_000), ("bank", 300), ("BANK", 20)):
        for i in range(count):
            sample.add(form, f"{form} {i}")
    texts = sample.texts()
    assert Counter(text.split()[0] for text in texts) == {"BANK": 20, "bank": 40, "Bank": 40}
    assert sample.total == 10_320 and len({*texts}) == 100
    # Late texts are as likely as early ones.
    late = [text for text in texts if text.startswith("Bank") and int(text.split()[1]) >= 5000]
    assert 8 < len(late) < 32


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 20), st.integers(0, 9))
def test_texts_in_another_order_give_the_same_sample(texts, size, seed):
    shuffled = np.random.default_rng(seed).permutation(texts).tolist()
    drawn = []
    for order in (texts, shuffled):
        sample = StratifiedSample(size)
        for text in order:
            sample.add("Bank" if text < "c" else "bank", text)
        drawn.append(Counter(sample.texts()))
    assert drawn[0] == drawn[1] and drawn[0].total() == min(size, len(texts))


def test_a_text_with_many_copies_does_not_fill_a_sample():
    sample = StratifiedSample(100)
    for number in range(3000):
        for text in (str(number), f"copy {number % 60}"):
            sample.add("bank", text)
    counts = Counter(sample.texts())
    assert max(counts.values()) < 25 and counts.total() == 100
    assert any(text.startswith("copy") for text in counts)


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


def write_corpus(folder, texts=LINES, column="text"):
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts))
    return path


WORDS = ["zebra", "fire", "the"]
CONTENT = files.rows(WORDS, np.array([[1, 2, 3], [2, 0, 1], [0, 1, 1]], np.float32))


def assert_counted(model):
    assert_word_bias(model, [1, 1, 3])
    assert model.manifest.training["informativeness"] == "counts in texts"
    facts = {"files": ["corpus.jsonl"], "texts": 3, "sample": 3}
    assert model.manifest.training["texts"] == facts


def test_texts_give_the_frequencies_of_an_unsorted_file(importer, tmp_path):
    corpus = write_corpus(tmp_path, [line.split() for line in LINES], "body")
    model = importer.model(CONTENT, "--texts", corpus, "--column", "body")
    assert "Warning" not in str(importer.progress)
    assert_counted(model)


def tune(importer, corpus):
    """Tune the model `made` to texts."""
    done = run("models", "tune", "made", "--texts", corpus, "--models-dir", importer.models)
    assert done.code == 0, done.err
    return read_model(importer.models / "made")


def test_a_model_is_tuned_to_texts(importer, tmp_path):
    corpus, before = write_corpus(tmp_path), importer.model(CONTENT)
    tuned = tune(importer, corpus)
    assert_counted(tuned)
    assert np.array_equal(tuned.vectors, before.vectors)
    assert tuned.manifest.source == before.manifest.source
    # The same weights as those of an import with texts.
    other = importer.model(CONTENT, "--texts", corpus, name="other")
    assert np.array_equal(other.layers[0].key.weight, tuned.layers[0].key.weight)
    assert np.array_equal(other.whitening.weight, tuned.whitening.weight)
    assert not np.array_equal(other.whitening.weight, before.whitening.weight)
    # Parameter-free attention remains.
    importer.model(CONTENT, "--no-weights")
    free = tune(importer, corpus)
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


def test_the_bundled_model_is_not_tuned(tmp_path):
    corpus = write_corpus(tmp_path)
    done = run("models", "tune", "wiki-en", "--texts", corpus, "--models-dir", tmp_path)
    assert done.code == 1
    assert "cannot be tuned" in done.err
