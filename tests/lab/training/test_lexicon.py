"""The token table: the entries of words and their vectors, as in the service."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.models.vocabulary import Vocabulary
from polyseme.tokenizer import no_subwords, resolve_all, tokenize
from polyseme_lab.training.data import Lexicon, concatenate
from tests.tiny import SUBWORDS, VECTORS, WORDS, tiny_model
from tests.tokenizer.vocabularies import PROPERTY

TEXTS = ["Apple's bank, the river-bank!", "MONEY didn't end gnu gnat", "", "high-end apple Apple"]


@pytest.fixture
def model(tmp_path):
    bias = np.arange(len(WORDS), dtype=np.float32)
    return tiny_model(tmp_path, word_bias=bias, subwords=SUBWORDS)


@PROPERTY
@given(st.text("aApPlLeE bn'’.-,:3@_/hwt\n", max_size=60))
def test_a_text_is_tokenized_as_by_the_service(text):
    words = Vocabulary.of(b"apple\nApple\nal\n'll\nn't\n.\n-\n3\nbe\nPP\n")
    lexicon = Lexicon(SimpleNamespace(vocabulary=words, composes=no_subwords))
    expected = [token.row for token in tokenize(text, words)]
    found = [entry for entry, _ in lexicon.of_text(text)]
    rows = [token.row for token in lexicon._tokens]
    assert [None if entry < 0 else rows[entry] for entry in found] == expected


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_the_vectors_that_the_service_gives_it(model, text):
    lexicon = Lexicon(model)
    entries = [entry for entry, _ in lexicon.of_text(text)]
    table = lexicon.table()
    rows = np.where(np.array(entries, int) < 0, table.unknown, np.array(entries, int))
    sentence = model.sentence(tokenize(text, model.vocabulary, composes=model.composes))
    np.testing.assert_array_equal(table.vectors[rows], sentence.vectors)
    np.testing.assert_array_equal(rows != table.unknown, sentence.known)
    known = sentence.known
    np.testing.assert_array_equal(table.word_bias[rows][known], sentence.word_bias[known])
    same, expected = (w[:, None] == w for w in (table.words[rows], sentence.words))
    np.testing.assert_array_equal(same[known][:, known], expected[known][:, known])


def test_pretokenized_words_are_not_split(model):
    lexicon = Lexicon(model, composing=False)
    entries = lexicon.of_words(["high-end", "Apple", "apple"])
    table = lexicon.table()
    assert entries[0][0] == Lexicon.UNKNOWN
    assert [table.keys[entry] for entry, _ in entries[1:]] == ["Apple", "apple"]
    assert table.rows[[entry for entry, _ in entries[1:]]].tolist() == [1, 0]


def test_every_word_has_a_lower_case_entry(model):
    lexicon = Lexicon(model, composing=False)
    [(written, lowered)] = lexicon.of_words(["APPLE"])
    table = lexicon.table()
    assert (table.keys[written], table.keys[lowered]) == ("APPLE", "apple")
    assert table.words[written] == table.words[lowered]


def test_a_repeated_word_has_the_same_entry(model):
    lexicon = Lexicon(model)
    assert lexicon.of_words(["bank", "bank"]) == lexicon.of_words(["bank"]) * 2
    assert len(lexicon.table().keys) == 2


def test_composed_words_are_known_unless_composing_is_off(model):
    resolved = resolve_all(["gnu"], model.vocabulary, composes=model.composes)
    assert resolved[0].composed == "gnu"
    for composing in (True, False):
        lexicon = Lexicon(model, composing=composing)
        [(entry, _)] = lexicon.of_words(["gnu"])
        table = lexicon.table()
        assert (entry != Lexicon.UNKNOWN) == composing
        assert (table.rows == -1).all()
        if composing:
            np.testing.assert_array_equal(table.vectors[entry], [2, 0, 0, 0, 1])


def test_the_last_entry_is_for_unknown_words(model):
    lexicon = Lexicon(model, composing=False)
    lexicon.of_words(["bank", "zzz"])
    table = lexicon.table()
    assert table.unknown == 1
    np.testing.assert_array_equal(table.vectors, [VECTORS[WORDS.index("bank")], np.zeros(5)])
    assert (table.words[-1], table.word_bias[-1], table.rows[-1]) == (-1, 0, -1)


def test_without_informativeness_the_table_has_no_word_bias(tmp_path):
    lexicon = Lexicon(tiny_model(tmp_path))
    lexicon.of_words(["bank"])
    assert lexicon.table().word_bias is None


def test_sentences_are_concatenated():
    pairs = [[(0, 1), (-1, 2)], [], [(3, -1)]]
    found = concatenate([np.array(one, np.int32).reshape(-1, 2) for one in pairs], 9)
    assert found.entries.tolist() == [0, 9, 3]
    assert found.lowered.tolist() == [1, 2, 9]
    assert found.offsets.tolist() == [0, 2, 2, 3]


def test_no_sentences_are_concatenated_to_an_empty_one():
    found = concatenate([], 9)
    assert (found.entries.tolist(), found.offsets.tolist()) == ([], [0])
