"""Every text that is looked up has a limit, and limits apply while texts are tokenized."""

from dataclasses import replace

import pytest

from polyseme.errors import MAX_ERRORS, TooLargeError, UnknownWordError
from polyseme.operations import encode as encode_module
from polyseme.operations.compare import Occurrence
from polyseme.operations.encode import MAX_UNKNOWN_WORDS, encode, tokenize, tokenize_text
from polyseme.operations.neighbors import NeighborsRequest, neighbors
from polyseme.operations.schema import EncodeOptions
from polyseme.spellings import MAX_WORD_LENGTH
from tests.operations.calls import ask, compare_occurrences, senses_in, too_large
from tests.tiny import LIMITS
from tests.tokenizer.hostile import TEXTS

SIZE = 1500


def refuse_word(model, word):
    with pytest.raises(UnknownWordError):
        neighbors(model, NeighborsRequest.model_construct(word=word))


WAYS = {
    "encode": lambda model, text: encode(model, [text, [text]]),
    "encode with phrases": lambda model, text: encode(model, [text], EncodeOptions(phrases=True)),
    "truncate": lambda model, text: tokenize_text(text, model.tokenizer, "auto", 10, 1000),
    "compare": lambda model, text: compare_occurrences(
        model, [Occurrence(f"bank {text}", "bank")] * 2, None
    ),
    "neighbors": refuse_word,
    "neighbors of words": lambda model, text: refuse_word(model, f"{text} qz {text} qz {text}"),
    "senses": lambda model, text: senses_in(model, "bank", [f"bank {text}"], forms=[text]),
}
NAMES = [
    *("marks in descending order", "words of such marks", "Hangul jamo", "dots"),
    *("contractions", "words of digits and letters", "joined emoji", "one letter", "surrogates"),
    *("ligatures that grow in upper case", "letters in white space", "one sign with marks"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_every_operation_takes_linear_work(counting, work, way, name):
    found = []
    for size in (SIZE, 2 * SIZE):
        before = work.total() + work.tokens
        WAYS[way](counting, TEXTS[name](size))
        found.append(work.total() + work.tokens - before)
    assert found[1] <= 2.1 * found[0] + 200
    assert found[1] <= 300 * 2 * SIZE


def test_long_query_is_rejected_after_a_few_lookups(counting, work):
    refuse_word(counting, "x" * (MAX_WORD_LENGTH + 1))
    assert work.lookups == 0
    refuse_word(counting, "bank " * 100_000)
    refuse_word(counting, "x" * 1_000_000)
    assert work.lookups < 100


def test_a_request_makes_no_more_tokens_than_its_limit(counting, work):
    limits = replace(LIMITS, max_sentence_tokens=50, max_tokens=120)
    texts = ["bank river " * 20] * 1000
    with too_large(setting="max_tokens", limit=120, size=40_000):
        tokenize(counting, texts, EncodeOptions(), limits)
    assert work.tokens == 0
    # Words are resolved once and cached, so distinct ones show how many are made. Without white
    # space, they are counted only as they are made.
    distinct = ["/".join(f"q{text}x{n}" for n in range(20)) for text in range(100)]
    with pytest.raises(TooLargeError):
        tokenize(counting, distinct, EncodeOptions(oov="zero"), limits)
    whole_words = 120 + 1
    pieces = 6  # q, 0, x and 1, the first of them also for the split that is abandoned
    assert whole_words <= work.tokens <= whole_words * pieces


def test_the_limit_of_the_request_applies_within_a_sentence(plain):
    limits = replace(LIMITS, max_sentence_tokens=50, max_tokens=12)
    with too_large(setting="max_tokens", limit=12, size=14):
        ask(plain, ["bank " * 10, "river " * 3, "money"], limits)
    assert len(ask(plain, ["bank " * 10, "river " * 2, ""], limits)) == 3
    for truncate in (False, True):
        with too_large(setting="max_tokens", limit=12, size=61):
            ask(plain, ["bank " * 10, "river " * 60, "money"], limits, truncate=truncate)
    with too_large(setting="max_sentence_tokens", limit=50, size=60):
        ask(plain, ["river " * 60], replace(limits, max_tokens=100))


def test_words_after_a_limit_are_counted_up_to_a_maximum(plain, monkeypatch):
    monkeypatch.setattr(encode_module, "MAX_COUNTED", 10)
    limits = replace(LIMITS, max_sentence_tokens=5, max_tokens=8)
    (one,) = ask(plain, ["bank " * 100], limits, truncate=True)
    assert (len(one.tokens), one.truncated) == (5, 10)
    with too_large(setting="max_tokens", limit=8, size=9 + 10):
        ask(plain, ["bank/" * 2, "bank/bank/bank", *["bank/" * 3] * 6], limits)
    # A text that is truncated counts at least one word, so that it is not taken as whole. Only what
    # is encoded, 20 tokens, counts for the request.
    texts = ["bank " * 9, *["bank " * 100] * 3]
    encoded = ask(plain, texts, replace(limits, max_tokens=21), truncate=True)
    assert [one.truncated for one in encoded] == [4, 10 - 4, 1, 1]
    words = ["bank"] * 100  # a list has a length that costs nothing
    assert ask(plain, [words], limits, truncate=True)[0].truncated == 95


def test_the_list_of_unknown_words_is_bounded(plain):
    text = " ".join(f"qx{n}" for n in range(MAX_UNKNOWN_WORDS + 5))
    with pytest.raises(UnknownWordError) as caught:
        ask(plain, [text], replace(LIMITS, max_sentence_tokens=5000), oov="error")
    assert caught.value.words == [f"qx{n}" for n in range(MAX_UNKNOWN_WORDS)]
    assert len(caught.value.errors) == MAX_ERRORS == 100
