"""Occurrences of words side by side."""

from dataclasses import replace

import numpy as np
import pytest

from polyseme.encoding.compare import Occurrence, compare
from polyseme.encoding.encode import Timings
from polyseme.engine.layers import Layer, Projection
from polyseme.errors import InvalidError, TooLargeError
from tests.encoding.asking import ask_one
from tests.tiny import LIMITS, VECTORS, WORDS, tiny_model


def put(model, *occurrences, neighbours=3, case="auto", limits=LIMITS):
    return compare(model, occurrences, neighbours, case, limits, Timings())


def token(model, text, word=None, **place):
    """The token that an occurrence is."""
    return put(model, Occurrence(text, word, **place)).occurrences[0].token


def refusal(model, *occurrences):
    with pytest.raises(InvalidError) as caught:
        put(model, *occurrences)
    (error,) = caught.value.errors
    return error.pointer, error.message


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_the_nth_time_a_word_is_written(plain):
    text = "bank river bank money bank"
    starts = [token(plain, text, "bank", nth=nth).start for nth in range(3)]
    assert starts == [0, 11, 22]


def test_a_word_that_is_not_written_as_often_is_refused(plain):
    assert refusal(plain, Occurrence("bank", "bank"), Occurrence("a bank", "bank", nth=1)) == (
        "/occurrences/1/nth",
        "the text has this word as a token 1 times; `nth` counts from 0",
    )


def test_a_word_that_is_not_written_at_all_is_refused(plain):
    pointer, message = refusal(plain, Occurrence("the river", "bank"))
    assert pointer == "/occurrences/0/word"
    assert "0 times" in message


def test_the_word_as_it_is_spelled_comes_first(plain):
    text = "Apple apple APPLE"
    assert token(plain, text, "apple").start == 6
    assert token(plain, text, "APPLE").start == 12
    assert refusal(plain, Occurrence(text, "apple", nth=1))[0] == "/occurrences/0/nth"


def test_a_word_that_is_written_in_other_case_is_found(plain):
    assert token(plain, "Bank and BANK", "bank").start == 0
    assert token(plain, "Bank and BANK", "bank", nth=1).start == 9


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(0, 4, "bank"), (5, 10, "river"), (6, 7, "river"), (4, 7, "river"), (0, 5, "bank")],
)
def test_a_span_means_the_token_it_touches(plain, start, end, text):
    assert token(plain, "bank river", start=start, end=end).text == text


@pytest.mark.parametrize(
    ("start", "end", "count"), [(4, 5, 0), (0, 6, 2), (3, 6, 2), (50, 60, 0), (4, 4, 0), (0, 0, 0)]
)
def test_a_span_has_to_touch_one_token(plain, start, end, count):
    assert refusal(plain, Occurrence("bank river", start=start, end=end)) == (
        "/occurrences/0/start",
        f"this span covers {count} tokens, it has to cover one",
    )


def test_spans_are_in_code_points(plain):
    assert token(plain, "👩‍👩‍👧 é bank", start=8, end=12).text == "bank"


def test_the_piece_of_a_word_is_an_occurrence(plain):
    assert token(plain, "didn't", "n't").start == 3


def test_the_shift_is_one_minus_the_cosine_in_float64(deep):
    for text in ("bank river money", "the bank didn't bank", "apple"):
        arrays = ask_one(deep, text).arrays
        word = "apple" if text == "apple" else "bank"
        place = 1 if text.startswith("the") else 0
        one = put(deep, Occurrence(text, word)).occurrences[0]
        static, contextual = arrays["static"][place], arrays["contextual"][place]
        assert one.shift == pytest.approx(1 - cosine(static, contextual), abs=1e-6)


def test_a_lone_word_does_not_shift(plain):
    assert put(plain, Occurrence("river", "river")).occurrences[0].shift == pytest.approx(
        0, abs=1e-6
    )


def test_similarities_are_the_cosines_of_the_rows(deep):
    texts = ["bank river", "money bank", "high apple end"]
    words = ["bank", "bank", "apple"]
    result = put(deep, *map(Occurrence, texts, words))
    places = [0, 1, 1]
    for part, found in (
        ("static", result.static_similarity),
        ("contextual", result.contextual_similarity),
    ):
        rows = [ask_one(deep, t).arrays[part][p] for t, p in zip(texts, places, strict=True)]
        expected = [[cosine(a, b) for b in rows] for a in rows]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert result.static_similarity[0, 1] == pytest.approx(1)
    assert result.contextual_similarity[0, 1] < 1 - 1e-4


def test_neighbours_of_the_static_vector_leave_out_the_word_in_any_case(plain):
    one = put(plain, Occurrence("Apple bank", "Apple"), neighbours=20).occurrences[0]
    assert {word for word, _ in one.static_neighbours} == set(WORDS) - {"apple", "Apple", "APPLE"}


def test_neighbours_of_the_contextual_vector_leave_out_the_words_of_the_sentence(plain):
    one = put(plain, Occurrence("Apple BANK zebra", "Apple"), neighbours=20).occurrences[0]
    left = set(WORDS) - {"apple", "Apple", "APPLE", "bank"}
    assert {word for word, _ in one.contextual_neighbours} == left


def test_neighbours_are_best_first_with_their_cosines(plain):
    one = put(plain, Occurrence("bank river", "bank"), neighbours=4).occurrences[0]
    contextual = ask_one(plain, "bank river").arrays["contextual"][0]
    # What is read is drawn towards the static vector, so that its word is still heard.
    read = contextual / np.linalg.norm(contextual) + 0.4 * VECTORS[3] / np.linalg.norm(VECTORS[3])
    for vector, found, without in (
        (VECTORS[3], one.static_neighbours, {"bank"}),
        (read, one.contextual_neighbours, {"bank", "river"}),
    ):
        expected = sorted(
            (-cosine(vector, row), number)
            for number, row in enumerate(VECTORS)
            if WORDS[number] not in without
        )[:4]
        assert [s for _, s in found] == pytest.approx([-s for s, _ in expected], abs=1e-6)
        for word, similarity in found:
            assert similarity == pytest.approx(cosine(vector, VECTORS[WORDS.index(word)]), abs=1e-6)


def test_no_neighbours_may_be_asked_for(plain):
    one = put(plain, Occurrence("bank", "bank"), neighbours=0).occurrences[0]
    assert one.static_neighbours == one.contextual_neighbours == []


def test_what_an_occurrence_looks_at_is_sorted_and_sums_to_one(deep):
    text = "bank river money apple bank did high"
    one = put(deep, Occurrence(text, "bank", nth=1)).occurrences[0]
    weights = [weight for _, weight in one.attends_to]
    row = ask_one(deep, text, layers="last", mean_of_heads=True).arrays["attention"][0, 4]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1, abs=1e-6)
    looked_at = {t.start: weight for t, weight in one.attends_to}
    tokens = ask_one(deep, text).tokens
    assert looked_at == {t.start: float(w) for t, w in zip(tokens, row, strict=True) if w > 0}
    assert not {"bank"} & {t.text for t, _ in one.attends_to}


def test_of_many_words_the_ten_it_looks_at_most_are_named(plain):
    text = " ".join(["bank", *["river", "money", "high", "end"] * 5])
    one = put(plain, Occurrence(text, "bank")).occurrences[0]
    weights = [weight for _, weight in one.attends_to]
    row = ask_one(plain, text).arrays["attention"][0, 0, 0]
    assert weights == np.sort(row)[::-1][:10].tolist()


def test_occurrences_of_one_key_are_noted(plain):
    result = put(
        plain,
        Occurrence("bank river", "bank"),
        Occurrence("Apple", "Apple"),
        Occurrence("money Bank", "Bank"),
        Occurrence("apple", "apple"),
    )
    assert result.notes == [
        (
            "Occurrences 0 and 2 share one vocabulary key, so their static vectors are equal and"
            " only context tells them apart."
        )
    ]


def test_an_unknown_occurrence_is_noted_and_gives_no_nan(plain):
    result = put(plain, Occurrence("zebra bank", "zebra"), Occurrence("zebra", "zebra"))
    assert result.notes == [
        f"Occurrence {n} is not in the vocabulary; its static vector is zero." for n in (0, 1)
    ]
    first, second = result.occurrences
    assert (first.shift, second.shift) == (1, 1)
    assert first.static_neighbours == second.static_neighbours == []
    assert second.contextual_neighbours == []
    assert len(first.contextual_neighbours) == 3
    assert [(t.text, w) for t, w in first.attends_to] == [("bank", 1.0)]
    assert result.static_similarity.tolist() == [[0, 0], [0, 0]]
    assert np.isfinite(result.contextual_similarity).all()


def test_a_word_whose_vector_is_zero_gives_no_nan(tmp_path):
    vectors = VECTORS.copy()
    vectors[3] = 0
    model = tiny_model(tmp_path, vectors=vectors)
    result = put(model, Occurrence("bank", "bank"), Occurrence("bank river", "bank"))
    first, second = result.occurrences
    assert first.shift == 1
    assert first.static_neighbours == first.contextual_neighbours == []
    assert second.contextual_neighbours
    assert "bank" not in {word for word, _ in second.contextual_neighbours}
    assert np.isfinite(result.contextual_similarity).all()
    assert result.static_similarity.tolist() == [[0, 0], [0, 0]]


def test_a_contextual_vector_without_a_direction_has_no_neighbours(tmp_path):
    nothing = Layer(value=Projection(np.zeros((len(VECTORS[0]),) * 2, np.float32)))
    model = tiny_model(tmp_path, layers=[nothing])
    first, _ = put(model, *[Occurrence("bank river", "bank")] * 2).occurrences
    assert first.static_neighbours
    assert first.contextual_neighbours == []


@pytest.mark.parametrize(
    "limits", [{"max_sentences": 1}, {"max_sentence_tokens": 1}, {"max_tokens": 3}]
)
def test_what_is_over_a_limit_is_refused(plain, limits):
    with pytest.raises(TooLargeError) as caught:
        put(plain, *[Occurrence("bank river", "bank")] * 2, limits=replace(LIMITS, **limits))
    assert caught.value.members()["setting"] in limits


def test_the_case_chooses_the_vector(plain):
    assert token(plain, "Bank", "Bank").key == "bank"
    exact = put(plain, Occurrence("Bank", "Bank"), case="exact").occurrences[0]
    assert exact.token.key is None
