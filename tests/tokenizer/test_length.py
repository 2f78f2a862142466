"""Words have a maximum length, so that the work of tokenization is linear in the text."""

import pytest

from polyseme.spellings import MAX_WORD_LENGTH, spellings
from polyseme.tokenizer import Tokenizer, resolve
from tests.tokenizer.hostile import TEXTS, Work
from tests.tokenizer.vocabularies import Vocabulary, resolve_all, tokenize

SIZE = 2000
GROWTH = 9
"""The largest factor by which NFC and upper case lengthen a word, 3 each."""


@pytest.fixture
def work(monkeypatch):
    return Work(monkeypatch)


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_twice_the_text_is_at_most_twice_the_work(work, name, is_list):
    measured = []
    for size in (SIZE, 2 * SIZE):
        before = work.total(), work.tokens
        tokenizer, text = Tokenizer(work, work.composes), TEXTS[name](size)
        if is_list:
            tokenizer.look_up([text])
            tokenizer.join_phrases(tokenizer.look_up(text.split()))
        else:
            tokenizer.join_phrases(tokenizer.tokens(text), "auto", text)
        measured.append((work.total() - before[0], work.tokens - before[1]))
    for small, large in zip(*measured, strict=True):
        assert large <= 2.1 * small + 100
        assert large <= 100 * 2 * SIZE
    assert work.longest <= GROWTH * MAX_WORD_LENGTH


@pytest.mark.parametrize("name", TEXTS)
def test_with_a_limit_the_work_does_not_depend_on_the_text(work, name):
    found = []
    for size in (2 * SIZE, 8 * SIZE):
        before = work.tokens
        tokens = Tokenizer(work, work.composes).tokens(TEXTS[name](size), max_tokens=10)
        assert len(tokens) <= 10 + MAX_WORD_LENGTH
        found.append(work.tokens - before)
    # A word of 250 characters is resolved whole, by its contraction, and twice by its pieces.
    assert found[1] <= found[0] <= 10 * (3 + 2 * MAX_WORD_LENGTH)


LONG = {
    "letters": "x" * 257,
    "hyphens": "ox-" * 85 + "ox",
    "contractions": "n't" * 85 + "n't",
    "apostrophes": "é’" * 128 + "q",
    "digits": "5" * 257,
    "signs": "!" * 257,
    "emoji": "👩\u200d" * 128 + "👩",
    "handle": "@" + "a" * 256,
    "address": "www." + "a" * 253,
}


@pytest.mark.parametrize("case", ["auto", "exact", "lower"])
@pytest.mark.parametrize("name", LONG)
def test_a_longer_word_is_one_unknown_token_with_its_offsets(name, case):
    word = LONG[name]
    assert MAX_WORD_LENGTH < len(word) <= MAX_WORD_LENGTH + 3
    vocabulary = Vocabulary(word, *word, "ox", "n't", word[1:])
    oov = (None, "oov", None, None)
    for tokens in (
        tokenize(f"- {word} -", vocabulary, case, str.isprintable),
        Tokenizer(vocabulary, str.isprintable).tokens(f"- {word} -", case),
    ):
        assert tokens[1:-1] == [(word, 2, 2 + len(word), *oov)]
    assert resolve_all([word], vocabulary, case, str.isprintable) == [(word, None, None, *oov)]
    assert resolve(word, vocabulary, case) == (word, None, None, *oov)
    assert not list(spellings(word, case))


@pytest.mark.parametrize("case", ["auto", "exact", "lower"])
def test_a_word_of_the_maximum_length_is_found_split_and_composed(case):
    word = "x" * MAX_WORD_LENGTH
    assert tokenize(word, Vocabulary(word), case)[0].key == word
    assert tokenize(word, Vocabulary(), case, str.isalpha)[0].composed == word
    ligatures = "\ufb03" * MAX_WORD_LENGTH  # the length is that of the word as written
    found = tokenize(ligatures, Vocabulary("FFI" * MAX_WORD_LENGTH), case)[0].resolution
    assert found == ("upper" if case == "auto" else "oov")
    assert tokenize(ligatures, Vocabulary("ffi" * MAX_WORD_LENGTH), case)[0].row is None
    chain = "ox-" * (MAX_WORD_LENGTH // 3)
    assert len(tokenize(chain, Vocabulary("ox", "-"), case)) == 2 * (MAX_WORD_LENGTH // 3)


def test_a_phrase_of_long_words_is_not_looked_up():
    words = ["x" * (MAX_WORD_LENGTH // 2)] * 2
    vocabulary = Vocabulary("_".join(words), "y_z")
    tokenizer = Tokenizer(vocabulary)
    assert len(tokenizer.join_phrases(tokenizer.look_up(words))) == 2
    assert len(tokenizer.join_phrases(tokenizer.look_up(["y", "z"]))) == 1


def test_a_split_is_abandoned_at_its_first_unknown_piece():
    word = "qz" + "-ox" * 50
    vocabulary = Vocabulary("ox", "-")
    (token,) = tokenize(word, vocabulary, "exact", str.isprintable)
    assert token.resolution == "subword"
    # The whole word twice, as written and as its first spelling, and the first piece.
    assert vocabulary.lookup_cost == 2 * (1 + len(word)) + 2 * (1 + len("qz"))
