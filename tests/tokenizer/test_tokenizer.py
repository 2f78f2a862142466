"""A tokenizer with a cache returns the tokens of the functions without one."""

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.spellings import Case
from polyseme.tokenizer import Tokenizer, no_subwords
from polyseme.words import word_spans
from tests.tokenizer.vocabularies import (
    GAP,
    PROPERTY,
    Vocabulary,
    cached,
    resolve_all,
    texts,
    texts_with_vocabularies,
    tokenize,
)


@PROPERTY
@given(texts_with_vocabularies(), texts, st.sampled_from([str.isalpha, no_subwords]))
def test_texts_have_the_same_tokens_with_and_without_the_cache(both, other, composes):
    text, vocabulary = both
    tokenizer = Tokenizer(vocabulary, composes)
    for one in (text, f"{other} {text}", text):
        for case in get_args(Case):
            assert tokenizer.tokens(one, case) == tokenize(one, vocabulary, case, composes)
            words = one.split(" ")
            resolved = resolve_all(words, vocabulary, case, composes)
            assert tokenizer.look_up(words, case) == resolved


CHUNKS = """
bank. bank.. bank... bank., bank?!. (bank) (bank. "bank", (bank-river) !bank ((bank .bank ,didn't.
"""


@pytest.mark.parametrize("chunk", CHUNKS.split())
def test_a_word_in_punctuation_has_the_same_tokens_without_the_cache(chunk):
    assert cached(chunk, Vocabulary("bank", "river", "-", "did", "n't", *'.,()"!?', "..", "..."))


def test_chunks_and_words_have_the_same_white_space():
    characters = list(map(chr, range(sys.maxunicode + 1)))
    space = "".join(one for one in characters if not one.split())
    assert len(space) > 20 and not list(word_spans(space))
    other = "".join(one for one in characters if one.split())
    ends = [0, *chain.from_iterable(word_spans(other)), len(other)]
    between = zip(ends[::2], ends[1::2], strict=True)
    assert GAP.fullmatch("".join(other[start:end] for start, end in between))


@pytest.mark.parametrize(
    ("limit", "count"), [(0, 0), (2, 2), (3, 3), (4, 4), (5, 5), (9, 5), (None, 5)]
)
def test_tokenization_stops_at_the_limit(limit, count):
    vocabulary = Vocabulary("did", "n't", "we")
    tokens = Tokenizer(vocabulary).tokens("we didn't we we", max_tokens=limit)
    assert [t.text for t in tokens] == ["we", "did", "n't", "we", "we"][:count]


def test_tokenization_stops_in_a_text_without_white_space():
    vocabulary = Vocabulary("!", "?")
    found = Tokenizer(vocabulary).tokens("a " + "!?" * 50_000, max_tokens=7)
    assert found == tokenize("a !?!?!?", vocabulary)
    assert vocabulary.lookup_cost < 200


@pytest.mark.parametrize(("length", "is_cached"), [(1, True), (16, True), (17, False)])
def test_a_word_that_is_not_long_is_looked_up_once(length, is_cached):
    vocabulary = Vocabulary("x")
    tokenizer = Tokenizer(vocabulary)
    for text in ("x" * length, ["x" * length]):
        tokenizer.look_up(text)
        before = vocabulary.lookup_cost
        tokenizer.look_up(text)
        assert (vocabulary.lookup_cost == before) == is_cached


class Subwords:
    """Subwords that refer to the vocabulary, as those of a model do."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def composes(self, spelling):
        return self.vocabulary.row(spelling) is None


def test_a_tokenizer_is_in_no_reference_cycle_with_its_vocabulary():
    vocabulary = Vocabulary("bank")
    tokenizer = Tokenizer(vocabulary, Subwords(vocabulary).composes)
    tokenizer.tokens("bank zebra")
    tokenizer.look_up(["bank", "zebra"])
    watched = weakref.ref(vocabulary)
    del vocabulary, tokenizer
    assert watched() is None


def test_threads_share_a_tokenizer():
    vocabulary = Vocabulary(*(f"w{n}" for n in range(0, 100, 2)))
    tokenizer = Tokenizer(vocabulary)
    several = [" ".join(f"w{(n * 7 + seed) % 100}" for n in range(40)) for seed in range(30)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(tokenizer.tokens, several))
    assert found == [tokenize(text, vocabulary) for text in several]
