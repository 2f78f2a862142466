"""Comparison of occurrences of words, and the map of them and their neighbors."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from sklearn.decomposition import PCA

from polyseme.engine import unit
from polyseme.engine.layers import Layer, Projection, Residual
from polyseme.errors import TooLargeError
from polyseme.operations.compare import NEIGHBOR_SHARE, Occurrence
from tests.operations.calls import ask_one, compare_occurrences, rejected
from tests.test_stages import recording
from tests.tiny import LIMITS, VECTORS, WORDS, tiny_model


def compare_all(model, *occurrences, limits=LIMITS, **fields):
    return compare_occurrences(model, occurrences, limits, **{"neighbors": 3, **fields})


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


CASES = "Apple apple APPLE"


@pytest.mark.parametrize(
    ("text", "position", "start"),
    [
        *(("bank river bank money bank", {"word": "bank", "nth": n}, 11 * n) for n in range(3)),
        # An exact match precedes matches in another case.
        (CASES, {"word": "apple"}, 6),
        (CASES, {"word": "APPLE"}, 12),
        ("Bank and BANK", {"word": "bank"}, 0),
        ("Bank and BANK", {"word": "bank", "nth": 1}, 9),
        ("ба\u0301нк банк", {"word": "банк", "nth": 1}, 6),
        ("всё и все", {"word": "все"}, 6),
        ("ΝΟΜΟΣ νομός νόμος", {"word": "νόμος"}, 12),
        ("νομός ΝΟΜΟΣ", {"word": "νόμος"}, 6),
        ("все", {"word": "всё"}, 0),
        ("didn't", {"word": "n't"}, 3),
        *(("bank river", {"start": 0, "end": end}, 0) for end in (4, 5)),
        *(("bank river", {"start": at, "end": end}, 5) for at, end in ((5, 10), (6, 7), (4, 7))),
        ("👩‍👩‍👧 é bank", {"start": 8, "end": 12}, 8),
        *((["bank", "river bank"], {"index": at}, None) for at in (0, 1)),
        (["the", " river  bank "], {"word": "river bank"}, None),
    ],
)
def test_an_occurrence_is_found_by_its_word_or_by_its_span(plain, text, position, start):
    (found,) = compare_all(plain, Occurrence(text, **position)).occurrences
    assert found.token.start == start


@pytest.mark.parametrize(
    ("text", "position", "field", "message"),
    [
        ("a bank", {"word": "bank", "nth": 1}, "nth", "must be less than 1, the number of"),
        (CASES, {"word": "apple", "nth": 1}, "nth", "must be less than 1, the number of"),
        ("the river", {"word": "bank"}, "word", "the text does not contain this word"),
        ([], {"word": "bank"}, "word", "the text does not contain this word"),
        (["river bank"], {"word": "bank"}, "word", "the text does not contain this word"),
        (["a", "bank"], {"word": "bank", "nth": 1}, "nth", "must be less than 1, the number of"),
        (["a", "bank"], {"index": 2}, "index", "must be less than 2, the number of words"),
        *(
            ("bank river", {"start": start, "end": end}, "start", f"one token; it covers {count}")
            for start, end, count in ((4, 5, 0), (0, 6, 2), (3, 6, 2), (50, 60, 0), (0, 0, 0))
        ),
    ],
)
def test_an_occurrence_that_is_not_found_is_rejected(plain, text, position, field, message):
    with rejected(f"/occurrences/1/{field}", message):
        compare_all(plain, Occurrence("bank", "bank"), Occurrence(text, **position))


def test_similarities_are_the_cosines_of_the_rows(deep):
    texts = ["bank river", "money bank", "high apple end"]
    words = ["bank", "bank", "apple"]
    result = compare_all(deep, *map(Occurrence, texts, words))
    places = [0, 1, 1]
    static, contextual = (
        [ask_one(deep, t).arrays[part][p] for t, p in zip(texts, places, strict=True)]
        for part in ("static", "contextual")
    )
    similarities = result.static_similarity, result.contextual_similarity
    for rows, found in zip((static, contextual), similarities, strict=True):
        expected = [[cosine(a, b) for b in rows] for a in rows]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert result.static_similarity[0, 1] == pytest.approx(1)
    assert result.contextual_similarity[0, 1] < 1 - 1e-5
    for one, *vectors in zip(result.occurrences, static, contextual, strict=True):
        assert one.shift == pytest.approx(1 - cosine(*vectors), abs=1e-6)


@pytest.mark.parametrize("share", [None, 0.0])
@pytest.mark.parametrize("count", [0, 4, 20])
def test_neighbors_are_best_first_with_their_cosines(tmp_path, share, count):
    model = tiny_model(tmp_path, layers=[Layer(residual=Residual("unit", 0.5))])
    text, fields = "Apple BANK zebra", {"neighbors": count, "share": share}
    one = compare_all(model, Occurrence(text, "Apple"), **fields).occurrences[0]
    static, query = VECTORS[1], ask_one(model, text, share=share).arrays["contextual"][0]
    if share is None:  # part of the static vector is added before neighbors are searched
        query = query / np.linalg.norm(query) + 0.4 * static / np.linalg.norm(static)
    # Neighbors are not spellings of the word, and in context of no word of the sentence.
    without = {"apple", "Apple", "APPLE"}
    for vector, found, excluded in (
        (static, one.static_neighbors, without),
        (query, one.contextual_neighbors, {*without, "bank"}),
    ):
        cosines = {word: cosine(vector, row) for word, row in zip(WORDS, VECTORS, strict=True)}
        expected = sorted((cosines[word] for word in {*WORDS} - excluded), reverse=True)[:count]
        assert [s for _, s in found] == pytest.approx(expected, abs=1e-6)
        assert not excluded & {word for word, _ in found}
        for word, similarity in found:
            assert similarity == pytest.approx(cosines[word], abs=1e-6)


def test_what_an_occurrence_attends_to_is_sorted_and_sums_to_one(deep):
    text = "bank river money apple bank did high"
    one = compare_all(deep, Occurrence(text, "bank", nth=1)).occurrences[0]
    weights = [attended.weight for attended in one.attends_to]
    row = ask_one(deep, text, layers="last", heads="mean").arrays["attention"][0, 4]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1, abs=1e-6)
    attended_to = {attended.start: attended.weight for attended in one.attends_to}
    tokens = ask_one(deep, text).tokens
    assert attended_to == {t.start: float(w) for t, w in zip(tokens, row, strict=True) if w > 0}
    assert "bank" not in {attended.text for attended in one.attends_to}
    text = " ".join(["bank", *["river", "money", "high", "end"] * 5])
    (one,) = compare_all(deep, Occurrence(text, "bank")).occurrences
    row = ask_one(deep, text, layers="last", heads="mean").arrays["attention"][0, 0]
    assert [found.weight for found in one.attends_to] == np.sort(row)[::-1][:10].tolist()


def test_occurrences_of_one_key_are_noted(plain):
    pairs = [("bank river", "bank"), ("Apple", "Apple"), ("money Bank", "Bank")]
    pairs += [("apple", "apple"), ("bank", "bank")]
    result = compare_all(plain, *(Occurrence(*pair) for pair in pairs))
    (note,) = result.notes
    assert note.startswith("Occurrences 0, 2 and 4 share one vocabulary key, so their static vec")


def test_an_unknown_occurrence_is_noted_and_gives_no_nan(plain):
    result = compare_all(plain, Occurrence("zebra bank", "zebra"), Occurrence("zebra", "zebra"))
    assert result.notes == [
        f"Occurrence {n} is not in the vocabulary; its static vector is zero." for n in (0, 1)
    ]
    first, second = result.occurrences
    assert (first.shift, second.shift) == (1, 1)
    assert first.static_neighbors == second.static_neighbors == []
    assert second.contextual_neighbors == []
    assert len(first.contextual_neighbors) == 3
    assert [(attended.text, attended.weight) for attended in first.attends_to] == [("bank", 1.0)]
    assert result.static_similarity.tolist() == [[0, 0], [0, 0]]
    assert np.isfinite(result.contextual_similarity).all()


def test_a_word_whose_vector_is_zero_gives_no_nan(tmp_path):
    vectors = VECTORS.copy()
    vectors[3] = 0
    model = tiny_model(tmp_path, vectors=vectors)
    result = compare_all(model, Occurrence("bank", "bank"), Occurrence("bank river", "bank"))
    first, second = result.occurrences
    assert first.shift == 1
    assert first.static_neighbors == first.contextual_neighbors == []
    assert second.contextual_neighbors
    assert "bank" not in {word for word, _ in second.contextual_neighbors}
    assert np.isfinite(result.contextual_similarity).all()
    assert result.static_similarity.tolist() == [[0, 0], [0, 0]]
    # A contextual vector without a direction has no neighbors.
    zero_values = Layer(value=Projection(np.zeros((5, 5), np.float32)))
    model = tiny_model(tmp_path / "zero values", layers=[zero_values])
    first, _ = compare_all(model, *[Occurrence("bank river", "bank")] * 2).occurrences
    assert first.static_neighbors
    assert first.contextual_neighbors == []


def test_occurrences_in_one_text_are_tokenized_and_encoded_once(deep, encoded):
    first, second = "bank river bank", "money bank"
    mixed = [
        Occurrence(first, "bank", 1),
        Occurrence(second, "bank"),
        Occurrence(first, "bank", 0),
        Occurrence(first, "river"),
    ]
    with recording() as record:
        result = compare_all(deep, *mixed, limits=replace(LIMITS, max_sentences=2, max_tokens=5))
    assert encoded == [3, 2]
    assert record.counts.tokens == 5
    # A space after a text makes it another one with the same tokens.
    apart = [replace(one, text=one.text + " " * n) for n, one in enumerate(mixed)]
    separate = compare_all(deep, *apart)
    assert encoded[2:] == [3, 3, 3, 2]  # those of equal length are computed together
    assert result.occurrences == separate.occurrences
    assert np.array_equal(result.contextual_similarity, separate.contextual_similarity)
    assert [one.token.start for one in result.occurrences] == [11, 6, 0, 5]


def test_a_text_over_a_limit_is_named_by_its_first_occurrence(plain):
    texts = ["bank", "bank", "bank river"]
    limits = replace(LIMITS, max_sentence_tokens=1)
    with pytest.raises(TooLargeError) as caught:
        compare_all(plain, *occurrences_of("bank", *texts), limits=limits)
    assert [error.pointer for error in caught.value.errors] == ["/occurrences/2/text"]


def test_the_case_chooses_the_vector(plain):
    for case, key in (("auto", "bank"), ("exact", None)):
        (found,) = compare_all(plain, Occurrence("Bank", "Bank"), case=case).occurrences
        assert found.token.key == key


TEXTS = ("river bank flows", "money bank grows")


def map_of(model, *occurrences, neighbors=2):
    return compare_occurrences(model, occurrences, neighbors=neighbors, map=True).map


def occurrences_of(word, *texts):
    return [Occurrence(text, word) for text in texts]


def test_the_map_is_the_principal_components_of_all_directions(bundled):
    result = compare_occurrences(bundled, occurrences_of("bank", *TEXTS), neighbors=4, map=True)
    words = [one.word for one in result.map.neighbors]
    near = [(*one.static_neighbors, *one.contextual_neighbors) for one in result.occurrences]
    assert {*words} == {word for word, _ in chain(*near)}
    directions = [*ask_one(bundled, ["bank", *words]).arrays["static"]]
    for text in TEXTS:
        one = ask_one(bundled, text)
        index = [token.text for token in one.tokens].index("bank")
        contextual, static = unit(
            np.stack([one.arrays[p][index] for p in ("contextual", "static")])
        )
        directions.insert(-len(words), contextual + NEIGHBOR_SHARE * static)
    directions = unit(np.array(directions, np.float64))
    pca = PCA(2).fit(directions)
    expected = pca.transform(directions)
    placed = [one.position for one in result.map.neighbors]
    positions = [result.map.static[0], *result.map.contextual, *placed]
    # The sign of a component is arbitrary.
    np.testing.assert_allclose(np.abs(positions), np.abs(expected), atol=1e-5)
    np.testing.assert_allclose(
        result.map.explained_variance_ratio, pca.explained_variance_ratio_, atol=1e-5
    )


def test_equal_vectors_count_as_one_point_of_the_map(bundled):
    two = map_of(bundled, *occurrences_of("bank", *TEXTS))
    four = map_of(bundled, *occurrences_of("bank", *TEXTS, *TEXTS))
    np.testing.assert_allclose(four.contextual[:2], two.contextual, atol=1e-12)
    words = [[one.word for one in found.neighbors] for found in (four, two)]
    assert words[0] == words[1]


def test_zero_vectors_have_no_position_and_a_single_point_is_the_origin(plain):
    found = map_of(plain, Occurrence("qqzz", "qqzz"), Occurrence("bank river", "bank"))
    assert found.static[0] is None
    assert found.contextual[0] is None
    assert len(found.static[1]) == 2
    found = map_of(plain, Occurrence("qqzz", "qqzz"), Occurrence("zzqq", "zzqq"))
    assert found.static == found.contextual == [None, None]
    assert (found.neighbors, found.explained_variance_ratio) == ([], [0, 0])
    for word in ("bank", "river", "money"):
        found = map_of(plain, *occurrences_of(word, word, word), neighbors=0)
        assert found.static == found.contextual == [[0, 0], [0, 0]]
        assert found.explained_variance_ratio == [0, 0]
