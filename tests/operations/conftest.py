"""Variants of the tiny model, each read once a session, and a record of what is encoded."""

from dataclasses import replace

import pytest

from polyseme.engine.layers import contextualize
from polyseme.models.vocabulary import Vocabulary
from tests.tiny import SUBWORDS, deep_model, tiny_model
from tests.tokenizer.hostile import Work


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Parameter-free attention without scaling: every number can be derived by hand."""
    return tiny_model(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def deep(tmp_path_factory):
    """Two layers with every part, 3 heads, queries and keys of width 2, values of width 7."""
    return deep_model(tmp_path_factory.mktemp("deep"))


@pytest.fixture(scope="session")
def composing(tmp_path_factory):
    """The plain model, with trigrams that compose unknown words."""
    return tiny_model(tmp_path_factory.mktemp("composing"), subwords=SUBWORDS)


@pytest.fixture(scope="session")
def deep_composing(tmp_path_factory):
    """The deep model with the same trigrams."""
    return deep_model(tmp_path_factory.mktemp("deep"), subwords=SUBWORDS)


@pytest.fixture
def encoded(monkeypatch):
    """The numbers of tokens of the sentences that compare and senses encode."""
    lengths = []

    def counted(inputs, *arguments, **options):
        *stack, length, _ = inputs.vectors.shape
        lengths.extend([length] * sum(stack))  # evidence is that of single sentences
        return contextualize(inputs, *arguments, **options)

    monkeypatch.setattr("polyseme.operations.encode.contextualize", counted)
    monkeypatch.setattr("polyseme.senses.occurrences.contextualize", counted)
    return lengths


@pytest.fixture
def work(monkeypatch):
    return Work(monkeypatch)


@pytest.fixture
def counting(plain, work, monkeypatch):
    """The plain model with an empty cache, whose lookups are counted as `work`."""
    assert plain.vocabulary.hides_digits  # looked up once
    row = Vocabulary.row
    monkeypatch.setattr(Vocabulary, "row", lambda self, word: work.count(word) or row(self, word))
    return replace(plain)
