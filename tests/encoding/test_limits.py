"""What is over a limit is refused before the work is done, or cut where that is asked for."""

from dataclasses import replace

import numpy as np
import pytest

from polyseme.encoding.encode import Batch, Timings, encode
from polyseme.encoding.options import EncodeOptions
from polyseme.errors import TooLargeError
from tests.encoding.asking import EVERY, ask, ask_one, same_bits
from tests.tiny import LIMITS

TEXTS = ["bank river money", "bank", "river apple"]


def refused(model, texts, stages=None, float_bytes=4, choice=None, **limits):
    with pytest.raises(TooLargeError) as caught:
        Batch(
            model,
            texts,
            choice or EncodeOptions(),
            replace(LIMITS, **limits),
            stages or Timings(),
            float_bytes,
        )
    error = caught.value
    ((setting, limit),) = limits.items()
    assert error.members()["setting"] == setting
    assert error.members()["limit"] == limit
    assert f"over the limit {setting} of {limit}." in error.sentence
    return error.members()["size"]


@pytest.mark.parametrize(
    ("setting", "limit", "size"),
    [("max_sentences", 2, 3), ("max_sentence_tokens", 2, 3), ("max_tokens", 5, 6)],
)
def test_one_over_a_limit_is_refused_before_any_vector_is_made(deep, setting, limit, size):
    stages = Timings()
    assert refused(deep, TEXTS, stages, **{setting: limit}) == size
    assert not {"static", "attention"} & set(stages.milliseconds)
    assert ask(deep, TEXTS, replace(LIMITS, **{setting: size}))


def test_too_many_sentences_are_refused_before_they_are_cut_into_tokens(deep):
    stages = Timings()
    refused(deep, TEXTS, stages, max_sentences=1)
    assert stages.milliseconds == {}


@pytest.mark.parametrize(
    "choice",
    [
        EncodeOptions(),
        EncodeOptions(include=EVERY),
        EncodeOptions(include=EVERY, mean_of_heads=True),
        EncodeOptions(include=EVERY, layers="last"),
        EncodeOptions(include=EVERY, layers=[0], mean_of_heads=True),
        EncodeOptions(include=frozenset({"static"})),
        EncodeOptions(include=frozenset({"values"})),
        EncodeOptions(include=frozenset({"keys", "scores"})),
    ],
)
def test_the_answer_is_as_large_as_the_limit_reckons(deep, choice):
    texts = [*TEXTS, "zebra bank"]
    stages = Timings()
    encoded = encode(deep, texts, choice, LIMITS, Timings())
    size = sum(array.nbytes for one in encoded for array in one.arrays.values())
    assert refused(deep, texts, stages, choice=choice, max_answer_bytes=size - 1) == size
    assert set(stages.milliseconds) == {"tokens"}
    assert encode(deep, texts, choice, replace(LIMITS, max_answer_bytes=size), Timings())


def test_the_size_of_the_answer_grows_with_the_bytes_of_a_number(deep):
    four = refused(deep, TEXTS, max_answer_bytes=1)
    assert refused(deep, TEXTS, float_bytes=12, max_answer_bytes=1) == 3 * four


def test_what_is_over_the_limit_is_cut_and_counted(deep):
    limits = replace(LIMITS, max_sentence_tokens=2)
    encoded = ask(deep, ["bank river money apple", "bank river", ""][:2], limits, truncate=True)
    assert [one.truncated for one in encoded] == [2, 0]
    assert [[t.text for t in one.tokens] for one in encoded] == [["bank", "river"]] * 2
    assert same_bits(encoded[0], ask_one(deep, "bank river"))


def test_cut_words_are_not_missed(deep):
    limits = replace(LIMITS, max_sentence_tokens=1)
    assert ask(deep, ["bank zebra"], limits, truncate=True, oov="error")[0].truncated == 1


def test_the_limit_on_tokens_counts_what_is_left_after_cutting(deep):
    limits = replace(LIMITS, max_sentence_tokens=2, max_tokens=4)
    assert len(ask(deep, ["bank river money", "river apple end"], limits, truncate=True)) == 2


def test_stages_are_timed_in_their_order(deep):
    stages = Timings()
    ask(deep, TEXTS, stages=stages)
    assert list(stages.milliseconds) == ["tokens", "static", "attention"]
    assert all(np.isfinite(spent) for spent in stages.milliseconds.values())


def test_what_is_not_asked_for_is_not_done(deep):
    stages = Timings()
    ask(deep, TEXTS, stages=stages, include=frozenset({"static"}))
    assert "attention" not in stages.milliseconds


def test_of_a_large_answer_the_tokens_count_as_well(deep):
    nothing = EncodeOptions(include=frozenset())
    texts = [["bank"]] * 1000
    small = {"stream_bytes": 1 << 30, "max_answer_bytes": 1000}
    assert len(encode(deep, texts, nothing, replace(LIMITS, **small), Timings())) == 1000
    limits = replace(LIMITS, stream_bytes=1000, max_answer_bytes=100_000)
    assert len(encode(deep, texts[:500], nothing, limits, Timings())) == 500
    with pytest.raises(TooLargeError) as refusal:
        encode(deep, texts, nothing, limits, Timings())
    assert refusal.value.extra["setting"] == "max_answer_bytes"
