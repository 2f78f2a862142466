"""Results are read by word or position, and shown in one line or as a data frame."""

import dataclasses
import pickle

import numpy as np
import pytest

from polyseme.client import ClientError, NoSuchTokenError, NotRequestedError, Sentence, Token
from polyseme.operations.trace import Trace, TraceStep

WORDS = ("The", "bank", "by", "the", "other", "bank")
N, D, LAYERS, HEADS = len(WORDS), 5, 2, 3
SENTENCE = Sentence(
    [Token(word, 7 * i, 7 * i + len(word), word, "exact") for i, word in enumerate(WORDS)],
    {
        "static": np.arange(N * D, dtype=np.float32).reshape(N, D),
        "features": np.zeros((N, 2 * D), np.float32),
        "attention": np.arange(LAYERS * HEADS * N * N, dtype=np.float32).reshape(
            LAYERS, HEADS, N, N
        ),
    },
)
"""Row i of `static` begins with D·i."""


def test_a_word_or_a_position_gives_the_token_with_its_vectors():
    bank = SENTENCE["bank"]
    assert (bank.text, bank.start, bank.end, bank.index) == ("bank", 7, 11, 1)
    assert bank.static.tolist() == [5, 6, 7, 8, 9]
    assert bank.features.shape == (2 * D,)
    assert np.array_equal(bank.attention, SENTENCE.attention[:, :, 1])
    for same in (SENTENCE[1], SENTENCE[-5], SENTENCE[np.int64(1)], SENTENCE.find("bank", nth=0)):
        assert same.index == 1 and np.array_equal(same.static, bank.static)
    assert SENTENCE.find("bank", nth=1).index == 5


@pytest.mark.parametrize("part", ["contextual", "contributions", "queries", "scores"])
def test_an_array_that_was_not_requested_says_what_to_do(part):
    for one in [SENTENCE, SENTENCE["bank"]] if part == "contextual" else [SENTENCE]:
        with pytest.raises(NotRequestedError, match=f'add "{part}" to `include`') as caught:
            getattr(one, part)
        assert isinstance(caught.value, AttributeError) and isinstance(caught.value, ClientError)
        assert not hasattr(one, part) and hasattr(one, "static")
    copy = pickle.loads(pickle.dumps(SENTENCE))
    assert np.array_equal(copy.attention, SENTENCE.attention) and not hasattr(copy, part)


def test_a_word_is_found_as_written_first_and_then_in_another_case():
    assert [SENTENCE[word].index for word in ("The", "the", "THE", "Bank")] == [0, 3, 0, 1]
    assert SENTENCE.find("THE", nth=1).index == 3
    assert "OTHER" in SENTENCE and "money" not in SENTENCE and 1 not in SENTENCE
    phrase = Sentence([Token("New  York", 0, 9, "New_York", "exact")])
    assert phrase["New  York"] == phrase["new york"]


def test_the_attention_of_averaged_heads_is_a_row_for_each_layer():
    mean = dataclasses.replace(SENTENCE, arrays={"attention": SENTENCE.attention.mean(axis=1)})
    assert np.array_equal(mean["bank"].attention, mean.attention[:, 1])


def test_a_sentence_has_a_length_and_is_a_sequence_of_tokens():
    assert len(SENTENCE) == N
    assert [(token.index, token.text) for token in SENTENCE] == list(enumerate(WORDS))
    assert list(Sentence([])) == []


INTEGER = "`nth` must be an integer, 0 for the first"
POSITION = r"^Give a word or a position; `list\(sentence\)\[1:3\]"


@pytest.mark.parametrize(
    ("find", "error", "message"),
    [
        (
            lambda s: s.find("money"),
            NoSuchTokenError,
            "^The .* `sentence.words` lists its tokens.$",
        ),
        (lambda s: s[""], NoSuchTokenError, "`sentence.words` lists its tokens"),
        (lambda s: s.find("bank", 2), NoSuchTokenError, "less than 2, the number of occurrences"),
        (lambda s: s.find("bank", -1), NoSuchTokenError, "not negative"),
        (lambda s: s.find(5), TypeError, "The word must be a string"),
        *((lambda s, nth=nth: s.find("bank", nth), TypeError, INTEGER) for nth in ("1", 1.0)),
        *((lambda s, at=at: s[at], IndexError, "has 6 tokens") for at in (N, -N - 1)),
        *((lambda s, at=at: s[at], TypeError, POSITION) for at in (1.0, slice(1, 3), None)),
    ],
)
def test_a_token_that_is_not_there_is_an_error_that_says_what_to_do(find, error, message):
    # The `str` of a plain KeyError would put the message in quotation marks.
    with pytest.raises(error, match=message):
        find(SENTENCE)


def test_an_unknown_step_of_a_trace_is_a_key_error_that_names_the_steps():
    assert issubclass(NoSuchTokenError, KeyError) and issubclass(NoSuchTokenError, ClientError)
    trace = Trace(["bank"], [TraceStep("queries", "Q = X", [1, 5], np.zeros((1, 5)))])
    assert trace["queries"].shape == (1, 5)
    with pytest.raises(KeyError, match="The steps are queries"):
        trace["query"]


def test_results_are_shown_in_one_line_without_arrays(local):
    (sentence,) = local.encode(["river bank"])
    comparison = local.compare([("river bank", "bank"), ("money bank", "bank")], neighbors=2)
    senses = local.senses("bank", ["river bank", "money bank"] * 3, senses=1)
    assert repr(SENTENCE) == (
        "Sentence(6 tokens, static [6, 5], features [6, 10], attention [2, 3, 6, 6], truncated 0)"
    )
    assert repr(senses) == (
        "Senses(model 'tiny', word 'bank', 1 sense, 6 occurrences, separation 0, several 0.5,"
        " 3 alternatives, 1 note)"
    )
    parts = sentence["bank"], senses.senses[0], comparison.occurrences[0]
    for result in (*parts, comparison, local.trace("bank")):
        assert "\n" not in repr(result) and len(repr(result)) < 300


def test_a_data_frame_has_a_row_for_each_token():
    pd = pytest.importorskip("pandas", reason="needs the extra `pandas`")
    frame = SENTENCE.to_frame()
    fields = ["text", "start", "end", "key", "resolution"]
    assert list(frame.columns) == [*fields, "static", "features"]
    assert frame["text"].tolist() == list(WORDS) and frame["start"].tolist() == [*range(0, 42, 7)]
    assert np.array_equal(np.stack(frame["static"]), SENTENCE.static)
    split = Sentence([Token("bank", None, None, None, "oov")]).to_frame()
    assert list(split.columns) == fields
    assert split["end"].dtype == "Int64" and split["end"].isna().all() and split["key"].isna().all()
    assert Sentence([], {"static": np.zeros((0, D))}).to_frame().shape == (0, 6)
    both = pd.concat([SENTENCE.to_frame(), split], keys=[0, 1])
    assert both.loc[1, "text"].tolist() == ["bank"]
