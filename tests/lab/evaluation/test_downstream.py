"""The tasks `tagging`, `sentences` and `pseudowords`, and the files that they read."""

import json
import lzma

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.neighbors import NearestCentroid

from polyseme.client.local import LocalModel
from polyseme.errors import CommandError
from polyseme.operations.embed import DEFAULT_POOLING
from polyseme_lab.evaluation.downstream import (
    HIDDEN_WORD,
    LabeledWords,
    centroid_f1,
    measure_pseudowords,
    measure_sentences,
    measure_tagging,
    read_pseudowords,
    read_sentence_pairs,
    read_tagged_sentences,
    spans_of,
    tag_score,
)
from tests.tiny import SUBWORDS, full_layer, tiny_model
from tests.tiny import VECTORS as TINY_VECTORS


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    layers = [full_layer(1)]
    return tiny_model(folder, layers=layers, word_bias=TINY_VECTORS[:, 0], subwords=SUBWORDS)


def test_tagged_sentences_end_at_empty_lines(tmp_path):
    (tmp_path / "dev.tsv").write_text("The\tDET\nriver\tNOUN\n\nbank\tNOUN")
    assert read_tagged_sentences(tmp_path / "dev.tsv") == [
        LabeledWords(("The", "river"), ("DET", "NOUN")),
        LabeledWords(("bank",), ("NOUN",)),
    ]


def pair(sense, index):
    """A line of pseudo-words whose last occurrence has this sense and index."""
    four = [{"sense": n % 2, "index": 0, "tokens": ["a", "b"]} for n in range(4)]
    last = {"sense": sense, "index": index, "tokens": ["a", "b"]}
    return json.dumps({"words": ["a", "b"], "occurrences": [*four, last]}) + "\n"


def pair_line(words, senses):
    occurrences = [
        {"sense": s, "index": 1, "tokens": [("river", "money")[s], words[s], "end"]} for s in senses
    ]
    return json.dumps({"words": words, "occurrences": occurrences})


# `10**9` would need gigabytes as the length of counts.
INVALID = [(2, 0), (-1, 0), (10**9, 0), ("0", 0), (1, 2), (1, -1), (1, 10**30)]


def test_a_line_of_pseudowords_is_read(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(pair(1, 1))
    (read,) = read_pseudowords(path)
    assert read.senses.tolist() == [0, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (read_tagged_sentences, "a\tB\nc\n", "line 2 is not a token, a tab and a tag"),
        (read_tagged_sentences, "\n\n", "has no sentence"),
        (read_sentence_pairs, "1\ta\tb\nx\ta\tb\n", "line 2: the line is not a score"),
        (read_sentence_pairs, "1\ta\n", "line 1: the line is not a score"),
        (read_sentence_pairs, "nan\ta\tb\n", "line 1: the line is not a score"),
        (read_sentence_pairs, "1\ta\tb\n1\tc\td\n", "different scores"),
        (read_sentence_pairs, "", "different scores"),
        (read_pseudowords, "{}\n", "line 1 is not a pair"),
        (read_pseudowords, "[1\n", "line 1 is not a pair"),
        (read_pseudowords, "", "has no pair"),
        *((read_pseudowords, pair(*invalid), "line 1 is not a pair") for invalid in INVALID),
        (read_pseudowords, pair_line(["bank", "apple"], [0, 0, 1]), "line 1 is not a pair"),
        (read_pseudowords, b"no pair", "line 1 is not a pair"),
        (read_tagged_sentences, b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_malformed_file_is_rejected(tmp_path, read, text, sentence):
    path = tmp_path / ("file.txt" if isinstance(text, str) or text[0] == 0xFF else "file.xz")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(CommandError, match=sentence):
        read(path)


def test_spans_are_those_of_conlleval():
    tags = ["B-per", "I-per", "O", "I-loc", "B-loc", "I-per", "B-per"]
    expected = {(0, 2, "per"), (3, 4, "loc"), (4, 5, "loc"), (5, 6, "per"), (6, 7, "per")}
    assert spans_of(tags) == expected
    assert spans_of([]) == spans_of(["O"]) == set()


def test_scores_by_hand():
    gold = [LabeledWords(("a", "b", "c"), ("B-x", "I-x", "O")), LabeledWords(("d",), ("B-y",))]
    found = ["B-x", "I-x", "B-y", "O"]
    # One of two spans is found, and one of two found is right.
    assert tag_score(gold, found, spans=True).value == 50
    assert tag_score(gold, found, spans=False).value == 50
    assert tag_score(gold, ["B-x", "I-x", "O", "B-y"], spans=True).value == 100


@pytest.mark.parametrize(("imbalanced", "step"), [(False, 2), (True, 10)])
def test_the_centroid_f1_is_that_of_scikit_learn(imbalanced, step):
    rng, senses = np.random.default_rng(1), np.repeat([0, 1], 30)
    vectors = rng.standard_normal((60, 4)) + senses[:, None]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    known = (vectors[:30:2], vectors[30::step])  # of the second word, every fifth example
    centroids = NearestCentroid().fit(np.vstack(known), np.repeat([0, 1], [*map(len, known)]))
    centroids.centroids_ /= np.linalg.norm(centroids.centroids_, axis=1, keepdims=True)
    expected = f1_score(senses[1::2], centroids.predict(vectors[1::2]), average="macro")
    assert centroid_f1(vectors, senses, imbalanced=imbalanced) == pytest.approx(expected)


def test_features_and_window_beat_the_static_vector_next_to_a_cue(model, tmp_path):
    # The tag of `bank` is that of the word before it.
    lines = {"river": "A", "money": "B"}
    text = "".join(f"{w}\tO\nbank\t{t}\n\n" for w, t in lines.items()) * 40
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(text)
    found = measure_tagging(model, tmp_path)
    scores = {row.name: row.figures["score"].value for row in found.rows}
    assert list(scores) == ["static", "window", "contextual", "features"]
    assert scores["static"] == 75
    assert scores["window"] == scores["features"] == 100
    widths = {row.name: row.facts["width"] for row in found.rows}
    assert widths == {"static": 5, "window": 15, "contextual": 5, "features": 10}


def test_tags_of_a_single_kind_are_rejected(model, tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("bank\tN\n")
    with pytest.raises(CommandError, match="a single tag"):
        measure_tagging(model, tmp_path)


def test_sentence_similarity_is_the_rank_correlation_of_each_pooling(model, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("5\triver bank\triver bank\n3\triver bank\triver end\n0\tmoney\tdid\n")
    found = measure_sentences(model, path)
    assert {row.name: row.kind for row in found.rows}[DEFAULT_POOLING] == "model"
    assert all(row.figures["spearman"].value == 100 for row in found.rows if row.kind == "model")


def test_pseudowords_are_hidden_and_told_apart_by_their_contexts(model, tmp_path):
    path = tmp_path / "pairs.jsonl.xz"
    lines = [pair_line(["bank", "apple"], [0, 1] * 10), pair_line(["did", "high"], [0, 1] * 10)]
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    pairs = read_pseudowords(path)
    assert pairs[0].words == ("bank", "apple")
    assert all(one.word == HIDDEN_WORD for pair in pairs for one in pair.occurrences)
    # Not even subwords compose the hidden word.
    assert not LocalModel(model).encode([[HIDDEN_WORD]], include=["static"])[0].static.any()
    found = measure_pseudowords(model, path)
    assert [row.name for row in found.rows] == ["mean", "model"]
    for row in found.rows:
        assert row.figures["balanced"].value == row.figures["imbalanced"].value == 100
