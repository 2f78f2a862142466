"""A tokenizer that remembers gives what the functions give that do not."""

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from polyseme import tokenizer
from polyseme.tokenizer import Tokenizer, resolve_all, tokenize, words
from tests.tokenizer.vocabularies import PROPERTY, Vocabulary, texts, texts_with_vocabularies

cases = st.sampled_from(["auto", "exact", "lower"])


def any_word(word):
    return word.isalpha()


@PROPERTY
@given(texts_with_vocabularies(), cases, st.sampled_from([any_word, lambda _: False]))
def test_a_text_has_the_same_tokens_the_first_time_and_the_second(both, case, composes):
    text, vocabulary = both
    cuts = Tokenizer(vocabulary, composes)
    expected = tokenize(text, vocabulary, case, composes)
    assert cuts.tokens(text, case) == expected
    assert cuts.tokens(text, case) == expected
    given_words = text.split(" ")
    resolved = resolve_all(given_words, vocabulary, case, composes)
    assert cuts.words(given_words, case) == resolved
    assert cuts.words(given_words, case) == resolved


@PROPERTY
@given(st.lists(texts, min_size=2, max_size=4), cases)
def test_what_was_cut_before_changes_nothing(several, case):
    vocabulary = Vocabulary("the", "bank", "did", "n't", "a")
    cuts = Tokenizer(vocabulary)
    for text in [*several, *several[::-1]]:
        for one in ("auto", "exact", case):
            assert cuts.tokens(text, one) == tokenize(text, vocabulary, one)


def test_white_space_is_the_same_for_chunks_and_for_words():
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        word = next(words(character), None)
        assert (word is None) == (tokenizer._CHUNK.search(character) is None), hex(point)


def test_a_plain_word_that_is_lacking_is_composed_as_others_are():
    vocabulary = Vocabulary("a")
    found = Tokenizer(vocabulary, any_word).tokens("a zebra")
    assert found == tokenize("a zebra", vocabulary, "auto", any_word)
    assert [token.resolution for token in found] == ["exact", "subword"]


def test_most_stops_after_the_chunk_that_reaches_it():
    vocabulary = Vocabulary("did", "n't", "we")
    cuts = Tokenizer(vocabulary)
    text = "we didn't we we"
    assert [t.text for t in cuts.tokens(text, most=0)] == ["we"]
    assert [t.text for t in cuts.tokens(text, most=2)] == ["we", "did", "n't"]
    assert [t.text for t in cuts.tokens(text, most=3)] == ["we", "did", "n't"]
    assert cuts.tokens(text, most=5) == cuts.tokens(text) == tokenize(text, vocabulary)


def test_most_stops_in_a_text_without_white_space():
    vocabulary = Vocabulary("!", "?")
    cuts = Tokenizer(vocabulary)
    text = "!?" * 50_000
    found = cuts.tokens("a " + text, most=7)
    assert found == tokenize("a " + text[:6], vocabulary)
    assert vocabulary.asked < 200


def test_a_word_is_looked_up_once():
    vocabulary = Vocabulary("bank", "river")
    cuts = Tokenizer(vocabulary)
    cuts.tokens("bank river bank")
    cuts.words(["bank", "river"])
    asked = vocabulary.asked
    cuts.tokens("river bank bank river")
    cuts.words(["river", "bank"])
    assert vocabulary.asked == asked


def test_long_chunks_are_not_remembered_and_short_ones_not_without_end(monkeypatch):
    monkeypatch.setattr(tokenizer, "_REMEMBERED", 10)
    vocabulary = Vocabulary()
    cuts = Tokenizer(vocabulary)
    long = "x" * 17
    for _ in range(2):
        cuts.tokens(f"{long} " + " ".join(f"w{n}" for n in range(100)))
        cuts.words([long, *(f"w{n}" for n in range(100))])
    for remembered in (cuts._chunk, cuts._word):
        assert remembered.cache_info().currsize == 10
        assert remembered.cache_info().hits == 0
    before = vocabulary.asked
    cuts.tokens(long)
    assert vocabulary.asked > before


def test_a_vocabulary_that_is_let_go_is_gone_at_once():
    vocabulary = Vocabulary("bank")
    cuts = Tokenizer(vocabulary, Subwords(vocabulary).composes)
    cuts.tokens("bank zebra")
    cuts.words(["bank", "zebra"])
    watched = weakref.ref(vocabulary)
    del vocabulary, cuts
    assert watched() is None


class Subwords:
    """What composes words, and holds a vocabulary."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def composes(self, spelling):
        return self.vocabulary.row(spelling) is None


def test_threads_share_a_tokenizer():
    vocabulary = Vocabulary(*(f"w{n}" for n in range(0, 500, 2)))
    cuts = Tokenizer(vocabulary)
    several = [" ".join(f"w{(n * 7 + seed) % 500}" for n in range(200)) for seed in range(60)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(cuts.tokens, several))
    assert found == [tokenize(text, vocabulary) for text in several]
