"""The nearest words, against every cosine in float64."""

import numpy as np
import pytest
from gensim.models import KeyedVectors

from polyseme.errors import UnknownWordError
from polyseme.operations.neighbors import NeighborsRequest, neighbors, query_token
from tests.operations.calls import neighbors_of_vector, neighbors_of_word, rejected
from tests.tiny import WORDS, tiny_model

COUNT = 211
ZERO_ROW = 13


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of random words, one of them zero."""
    vectors = np.random.default_rng(2).standard_normal((COUNT, 7)).astype(np.float16)
    vectors[ZERO_ROW] = 0
    words = [f"w{n}" for n in range(COUNT)]
    return tiny_model(tmp_path_factory.mktemp("random"), words=words, vectors=vectors)


def all_cosines(model, vector):
    table = model.vectors.astype(np.float64)
    lengths = np.linalg.norm(table, axis=1)
    lengths[lengths == 0] = np.inf
    return table @ vector / lengths / np.linalg.norm(vector)


def assert_best(model, vector, found, k, without=()):
    cosines = all_cosines(model, np.asarray(vector, np.float64))
    order = [n for n in np.argsort(-cosines, kind="stable") if n not in {ZERO_ROW, *without}][:k]
    assert [word for word, _ in found] == [f"w{n}" for n in order]
    assert [s for _, s in found] == pytest.approx(cosines[order].tolist(), abs=1e-6)


@pytest.mark.parametrize("k", [1, 5, 100, COUNT, 1000])
def test_a_word_has_the_neighbors_that_brute_force_finds(model, k):
    for row in (0, 1, COUNT - 1):
        found = neighbors_of_word(model, f"w{row}", k, "auto")
        assert_best(model, model.vectors[row].astype(np.float64), found, k, [row])
    assert neighbors_of_word(model, f"w{ZERO_ROW}", k) == []


@pytest.mark.parametrize("scale", [1, 1.0, 1e-320, 1e-30, 1e38, 1e300])
def test_a_vector_of_any_length_has_the_neighbors_that_brute_force_finds(model, scale):
    vector = np.array([1, -2, 3, 0, 5, 7, -11])
    found = neighbors_of_vector(model, (vector * scale).tolist(), 10)
    # At 1e-320 numbers have few digits, so the direction is that of the scaled vector.
    assert_best(model, (vector * scale) / (11 * scale), found, 10)


def test_a_word_is_looked_up_in_the_requested_case(plain):
    found = neighbors_of_word(plain, "BANK", 20, "auto")
    assert found == neighbors_of_word(plain, "bank", 20, "exact")
    assert {word for word, _ in found} == set(WORDS) - {"bank"}
    with pytest.raises(UnknownWordError) as caught:
        neighbors_of_word(plain, "BANK", 3, "exact")
    assert caught.value.errors[0].pointer == "/word"
    assert caught.value.members().get("words") is None


@pytest.fixture
def phrases(tmp_path):
    """A model of phrases; imported entries may contain a space."""
    words = ("New_York", "well-known", "new york", "a_b_c_d", *WORDS[4:])
    return tiny_model(tmp_path, words=words)


def test_a_phrase_is_looked_up_as_one_entry_and_never_composed(phrases):
    for phrase, row in (("New York", 0), ("well  known", 1), ("new york", 2), ("a b c d", 3)):
        assert query_token(phrases, phrase).row == row
        assert neighbors(phrases, NeighborsRequest.of(word=phrase)).key == phrases.vocabulary.word(
            row
        )
    for word in ("river money", "New York river", "a b c d river", " "):
        with pytest.raises(UnknownWordError):
            neighbors_of_word(phrases, word, 3)


def test_only_the_entry_of_a_word_is_named(phrases):
    assert neighbors(phrases, NeighborsRequest.of(word="RIVER")).key == "river"
    for fields in ({"positive": ["river"]}, {"vector": [1.0] * 5}):
        assert neighbors(phrases, NeighborsRequest.of(**fields)).key is None


def neighbors_of_sum(model, positive=(), negative=(), k=10, case="auto"):
    request = NeighborsRequest.of(positive=[*positive], negative=[*negative], k=k, case=case)
    return neighbors(model, request)


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        (["w1", "w2"], ["w3"]),
        (["w1"], []),
        ([], ["w4"]),
        (["w5", "w5", [1.0, -2.0, 3.0, 0.5, 5.0, 7.0, -11.0]], ["w6", [0.5] * 7]),
    ],
)
def test_a_sum_has_the_neighbors_that_gensim_finds(model, positive, negative):
    theirs = KeyedVectors(7)
    rows = [row for row in range(COUNT) if row != ZERO_ROW]
    theirs.add_vectors([f"w{row}" for row in rows], model.vectors[rows].astype(np.float64))
    # gensim normalizes words, but no given vectors.
    both = (
        [np.array(t) / np.linalg.norm(t) if isinstance(t, list) else t for t in terms]
        for terms in (positive, negative)
    )
    expected = theirs.most_similar(*both, topn=10)
    found = neighbors_of_sum(model, positive, negative).neighbors
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert [s for _, s in found] == pytest.approx([s for _, s in expected], abs=1e-6)


def test_a_sum_is_of_unit_vectors_and_leaves_out_its_words(tmp_path):
    # On paper: unit (3, 0) + unit (0, 5) - unit (-1, 0) = (2, 1), whose cosines are 2/√5 and 1/√5.
    vectors = np.zeros((5, 5), np.float32)
    vectors[:4, :2] = [[3, 0], [0, 5], [-1, 0], [7, 0]]
    vectors[4, 1] = 0.1
    model = tiny_model(tmp_path, words=["a", "b", "c", "east", "north"], vectors=vectors)
    found = neighbors_of_sum(model, ["a", "B"], ["c"])
    assert [word for word, _ in found.neighbors] == ["east", "north"]
    assert [s for _, s in found.neighbors] == pytest.approx([2 / 5**0.5, 1 / 5**0.5])
    assert found.resolution is None


NO_SUM = "the sum of the unit vectors is zero"


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"vector": [1.0] * 5}, "/vector", "has 5 numbers instead of 7"),
        ({"vector": [0.0] * 7}, "/vector", "a zero vector has no direction"),
        ({"vector": [-0.0] * 7}, "/vector", "a zero vector has no direction"),
        ({"positive": ["w1", "w2"], "negative": ["w2", "w1"]}, "", NO_SUM),
        ({"positive": [[3.0] * 7], "negative": [[5.0] * 7]}, "", NO_SUM),
        ({"positive": ["w1", [1.0] * 6]}, "/positive/1", "has 6 numbers instead of 7"),
        (
            {"positive": ["w1"], "negative": ["w2", [0.0] * 7]},
            "/negative/1",
            "a zero vector has no direction",
        ),
        ({"word": "x" * 1000}, "/word", "is not in the vocabulary"),
    ],
    ids=range(8),
)
def test_request_without_a_direction_is_rejected(model, fields, pointer, message):
    with rejected(pointer, message):
        neighbors(model, NeighborsRequest.of(**fields))


def test_unknown_words_are_rejected_with_their_paths(plain):
    with pytest.raises(UnknownWordError) as caught:
        neighbors_of_sum(plain, ["bank", "rivr"], ["gnu bank", "bank"])
    assert [error.pointer for error in caught.value.errors] == ["/positive/1", "/negative/0"]
