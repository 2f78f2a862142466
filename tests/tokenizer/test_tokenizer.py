"""A tokenizer with its cache returns what the functions without one return."""

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from polyseme.tokenizer import Tokenizer, resolve_all, tokenize, words
from tests.tokenizer.vocabularies import PROPERTY, Vocabulary, texts, texts_with_vocabularies

cases = st.sampled_from(["auto", "exact", "lower"])


def any_word(word):
    return word.isalpha()


@PROPERTY
@given(texts_with_vocabularies(), cases, st.sampled_from([any_word, lambda _: False]))
def test_a_text_has_the_same_tokens_the_first_time_and_the_second(both, case, composes):
    text, vocabulary = both
    tokenizer = Tokenizer(vocabulary, composes)
    expected = tokenize(text, vocabulary, case, composes)
    assert tokenizer.tokens(text, case) == expected
    assert tokenizer.tokens(text, case) == expected
    given_words = text.split(" ")
    resolved = resolve_all(given_words, vocabulary, case, composes)
    assert tokenizer.words(given_words, case) == resolved
    assert tokenizer.words(given_words, case) == resolved


@PROPERTY
@given(st.lists(texts, min_size=2, max_size=4), cases)
def test_earlier_texts_change_nothing(several, case):
    vocabulary = Vocabulary("the", "bank", "did", "n't", "a")
    tokenizer = Tokenizer(vocabulary)
    for text in [*several, *several[::-1]]:
        for one in ("auto", "exact", case):
            assert tokenizer.tokens(text, one) == tokenize(text, vocabulary, one)


def test_white_space_is_the_same_for_chunks_and_for_words():
    characters = list(map(chr, range(sys.maxunicode + 1)))
    space = "".join(one for one in characters if not one.split())
    assert len(space) > 20
    assert not list(words(space))
    other = "".join(one for one in characters if one.split())
    assert sum(end - start for start, end in words(other)) == len(other)


def test_a_plain_unknown_word_is_composed_like_others():
    vocabulary = Vocabulary("a")
    found = Tokenizer(vocabulary, any_word).tokens("a zebra")
    assert found == tokenize("a zebra", vocabulary, "auto", any_word)
    assert [token.resolution for token in found] == ["exact", "subword"]


def test_most_stops_after_the_chunk_that_reaches_it():
    vocabulary = Vocabulary("did", "n't", "we")
    tokenizer = Tokenizer(vocabulary)
    text = "we didn't we we"
    assert [t.text for t in tokenizer.tokens(text, most=0)] == ["we"]
    assert [t.text for t in tokenizer.tokens(text, most=2)] == ["we", "did", "n't"]
    assert [t.text for t in tokenizer.tokens(text, most=3)] == ["we", "did", "n't"]
    assert tokenizer.tokens(text, most=5) == tokenizer.tokens(text) == tokenize(text, vocabulary)


def test_most_stops_in_a_text_without_white_space():
    vocabulary = Vocabulary("!", "?")
    tokenizer = Tokenizer(vocabulary)
    text = "!?" * 50_000
    found = tokenizer.tokens("a " + text, most=7)
    assert found == tokenize("a " + text[:6], vocabulary)
    assert vocabulary.asked < 200


def test_a_word_is_looked_up_once():
    vocabulary = Vocabulary("bank", "river")
    tokenizer = Tokenizer(vocabulary)
    tokenizer.tokens("bank river bank")
    tokenizer.words(["bank", "river"])
    asked = vocabulary.asked
    tokenizer.tokens("river bank bank river")
    tokenizer.words(["river", "bank"])
    assert vocabulary.asked == asked


def test_long_chunks_are_not_cached_and_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(Tokenizer, "CACHE_SIZE", 10)
    vocabulary = Vocabulary()
    tokenizer = Tokenizer(vocabulary)
    long = "x" * 17
    for _ in range(2):
        tokenizer.tokens(f"{long} " + " ".join(f"w{n}" for n in range(105)))
        tokenizer.words([long, *(f"w{n}" for n in range(105))])
        for cache in (tokenizer._chunks["auto"], tokenizer._words["auto"]):
            assert set(cache) == {f"w{n}" for n in range(100, 105)}
            cache.clear()
    before = vocabulary.asked
    tokenizer.tokens(long)
    assert vocabulary.asked > before


def test_the_vocabulary_of_a_released_tokenizer_is_freed_at_once():
    vocabulary = Vocabulary("bank")
    tokenizer = Tokenizer(vocabulary, Subwords(vocabulary).composes)
    tokenizer.tokens("bank zebra")
    tokenizer.words(["bank", "zebra"])
    watched = weakref.ref(vocabulary)
    del vocabulary, tokenizer
    assert watched() is None


class Subwords:
    """Composes words, and holds a vocabulary."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def composes(self, spelling):
        return self.vocabulary.row(spelling) is None


def test_threads_share_a_tokenizer():
    vocabulary = Vocabulary(*(f"w{n}" for n in range(0, 500, 2)))
    tokenizer = Tokenizer(vocabulary)
    several = [" ".join(f"w{(n * 7 + seed) % 500}" for n in range(200)) for seed in range(60)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(tokenizer.tokens, several))
    assert found == [tokenize(text, vocabulary) for text in several]
