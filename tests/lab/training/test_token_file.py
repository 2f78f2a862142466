"""A corpus is tokenized once, as the service does, into arrays of rows."""

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme.progress import SILENT
from polyseme.tokenizer import tokenize
from polyseme_lab.training import token_file
from polyseme_lab.training.token_file import UNKNOWN, open_tokens
from tests.tiny import SUBWORDS, VECTORS, WORDS, tiny_model


@pytest.fixture
def model(tmp_path):
    return tiny_model(tmp_path, subwords=SUBWORDS)


def opened(folder, model, text, name="text.txt", **hashes):
    path = folder / name
    path.write_text(text)
    return open_tokens(folder / "tokens", model, [path], {"text": text, **hashes}, SILENT)


def lines(tokens):
    return [tokens.sentence(number).tolist() for number in range(len(tokens.offsets) - 1)]


def test_sentences_are_rows_of_the_vocabulary(tmp_path, model):
    text = 'The river did high. bank Apple river end! "Apple did high." APPLE river money end'
    apple, upper, bank, river, money, did, high, end = (
        WORDS.index(word)
        for word in ("Apple", "APPLE", "bank", "river", "money", "did", "high", "end")
    )
    found = lines(opened(tmp_path, model, text))
    vocabulary = len(WORDS)
    assert found[0][1:4] == [river, did, high]
    assert [[row for row in one if 0 <= row < vocabulary] for one in found] == [
        [river, did, high, bank, apple, river, end],
        [apple, did, high],
        [upper, river, money, end],
    ]


def test_the_rows_are_those_of_the_tokens_of_the_service(tmp_path, model):
    text = "river didn't high-end\tApple unheard www.end.org gnu money"
    tokens = tokenize(text, model.vocabulary, composes=model.composes)
    table = opened(tmp_path, model, text).table(model)
    [rows] = lines(opened(tmp_path, model, text))
    np.testing.assert_allclose(table[rows], model.static(tokens), atol=1e-3)
    assert UNKNOWN in rows
    assert [row == UNKNOWN for row in rows] == [t.resolution == "oov" for t in tokens]


def test_the_table_has_the_vocabulary_composed_words_and_a_zero_row(tmp_path, model):
    tokens = opened(tmp_path, model, "gnu river money gnu end")
    table = tokens.table(model)
    [rows] = lines(tokens)
    assert rows == [11, 4, 5, 11, 10]
    np.testing.assert_array_equal(table, [*VECTORS, [2, 0, 0, 0, 1], np.zeros(5)])
    assert table.dtype == np.float32


def test_more_composed_words_than_the_limit_are_unknown(tmp_path, model, monkeypatch):
    monkeypatch.setattr(token_file, "MAX_COMPOSED", 1)
    tokens = opened(tmp_path, model, "gnu river emu gnu emu")
    assert lines(tokens) == [[11, 4, UNKNOWN, 11, UNKNOWN]]


def test_short_sentences_are_skipped_and_long_ones_divided(tmp_path, model, monkeypatch):
    monkeypatch.setattr(token_file, "MAX_TOKENS", 5)
    text = "\n".join(["end " * 3, "river " * 4, "money " * 12])
    assert [len(one) for one in lines(opened(tmp_path, model, text))] == [4, 5, 5]


def test_a_full_cache_or_buffer_changes_nothing(tmp_path, model, monkeypatch):
    text = "river money gnu end did high\n" * 5 + "emu end did high bank Apple\n"
    expected = lines(opened(tmp_path, model, text))
    for name in ("_CACHED", "_FLUSH"):
        monkeypatch.setattr(token_file, name, 2)
    assert lines(opened(tmp_path, model, text, again=True)) == expected
    assert len(expected) == 6


def test_the_same_files_are_tokenized_once(tmp_path, model, monkeypatch):
    first = lines(opened(tmp_path, model, "river money end did"))
    with monkeypatch.context() as patch:
        patch.setattr(token_file, "tokenize", None)
        assert lines(opened(tmp_path, model, "river money end did")) == first
    assert lines(opened(tmp_path, model, "end did river money")) != first


def test_tokens_of_an_interrupted_run_are_not_used(tmp_path, model, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    text = "river money end did"
    opened(tmp_path, model, text)
    with monkeypatch.context() as patch:
        patch.setattr(token_file, "tokenize", interrupt)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path, model, "bank bank bank bank")
    assert lines(opened(tmp_path, model, text)) == [[4, 5, 10, 6]]


def test_a_corpus_without_sentences_is_reported(tmp_path, model):
    with pytest.raises(CommandError, match="too little training data"):
        opened(tmp_path, model, "end\n\n")
