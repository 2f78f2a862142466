"""Work stops where a limit is passed, and what is left is counted."""

from dataclasses import replace

import pytest

from polyseme.encoding.encode import Timings, cut_texts, cut_traced, encode
from polyseme.encoding.options import EncodeOptions, Limits
from polyseme.errors import MOST_ERRORS, TooLargeError, UnknownWordError
from tests.tiny import tiny_model

LIMITS = Limits(
    max_sentences=10,
    max_sentence_tokens=7,
    max_tokens=11,
    max_trace_tokens=5,
    max_answer_bytes=10**9,
)
WIDE = replace(LIMITS, max_sentence_tokens=1000, max_tokens=1000)
LONG = "bank river " * 50_000


class Counting:
    """A vocabulary that counts how often it is asked."""

    def __init__(self, vocabulary):
        self.vocabulary, self.asked = vocabulary, 0

    def row(self, word):
        self.asked += 1
        return self.vocabulary.row(word)


@pytest.fixture
def model(tmp_path):
    plain = tiny_model(tmp_path)
    return replace(plain, vocabulary=Counting(plain.vocabulary))


@pytest.mark.parametrize("text", [LONG, LONG.split()])
def test_a_text_over_the_limit_is_refused_with_its_size_after_a_few_lookups(model, text):
    with pytest.raises(TooLargeError) as caught:
        list(cut_texts([text], model, "auto", LIMITS))
    assert caught.value.extra == {"limit": 7, "size": 100_000, "setting": "max_sentence_tokens"}
    assert model.vocabulary.asked < 20


@pytest.mark.parametrize("text", [LONG, LONG.split()])
def test_a_text_that_may_be_cut_is_cut_and_the_rest_counted(model, text):
    ((tokens, over),) = cut_texts([text], model, "auto", LIMITS, truncate=True)
    assert [token.text for token in tokens] == ["bank", "river"] * 3 + ["bank"]
    assert over == 100_000 - 7
    assert model.vocabulary.asked < 20


def test_texts_over_the_limit_together_are_refused_with_the_size_of_all(model):
    with pytest.raises(TooLargeError) as caught:
        list(cut_texts(["bank river money"] * 1000, model, "auto", LIMITS))
    assert caught.value.extra == {"limit": 11, "size": 3000, "setting": "max_tokens"}
    assert model.vocabulary.asked < 20


def test_a_text_to_be_traced_has_a_limit_of_its_own(model):
    assert len(cut_traced("bank river money bank river", model, "auto", LIMITS)) == 5
    with pytest.raises(TooLargeError) as caught:
        cut_traced(LONG, model, "auto", LIMITS)
    assert caught.value.extra == {"limit": 5, "size": 100_000, "setting": "max_trace_tokens"}
    assert model.vocabulary.asked < 20


def test_texts_at_their_limits_pass(model):
    cut = cut_texts(["bank " * 7, "river " * 4], model, "auto", LIMITS)
    assert [(len(tokens), over) for tokens, over in cut] == [(7, 0), (4, 0)]


def test_an_error_names_a_hundred_places_at_most_and_every_word(model):
    text = " ".join(f"qx{i}" for i in range(300))
    with pytest.raises(UnknownWordError) as caught:
        encode(model, [text], EncodeOptions(oov="error"), WIDE, Timings())
    assert len(caught.value.errors) == MOST_ERRORS == 100
    assert caught.value.words == [f"qx{i}" for i in range(300)]
