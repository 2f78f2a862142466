"""`polyseme encode` and `compare` with a model that has subwords."""

import json
from functools import partial

import pytest

from tests.cli.conftest import run
from tests.tiny import SUBWORDS, write_tiny


@pytest.fixture(scope="module")
def polyseme(tmp_path_factory):
    """`polyseme` whose default model composes words; `tiny` does not."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny")
    write_tiny(folder / "composing", subwords=SUBWORDS)
    return partial(run, models_dir=folder, POLYSEME_MODEL="composing")


def resolutions(done):
    assert (done.returncode, done.stderr) == (0, b"")
    return [token["resolution"] for token in json.loads(done.stdout)["results"][0]["tokens"]]


def test_words_are_composed_where_nothing_else_is_asked_for(polyseme):
    assert resolutions(polyseme("encode", "bank gnu")) == ["exact", "subword"]
    assert resolutions(polyseme("encode", "--oov", "subword", "gnu")) == ["subword"]
    assert resolutions(polyseme("encode", "--oov", "zero", "gnu")) == ["oov"]
    assert resolutions(polyseme("encode", "--model", "tiny", "gnu")) == ["oov"]


def test_a_model_without_subwords_says_so_in_one_sentence(polyseme):
    done = polyseme("encode", "--model", "tiny", "--oov", "subword", "gnu")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == "polyseme: this model has no subword vectors (/oov).\n"


def test_an_error_lists_words_that_could_be_composed(polyseme):
    done = polyseme("encode", "--oov", "error", "bank gnu zebra")
    assert (done.returncode, done.stdout) == (1, b"")
    assert ": gnu, zebra." in done.stderr.decode()


def test_a_comparison_says_what_was_composed(polyseme):
    done = polyseme("compare", "--word", "gnu", "gnu bank", "a gnu")
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines[0].startswith("0  gnu  (subword, shift ")
    assert lines[-3].startswith("note: Occurrences 0 and 1 are composed from the subwords of one")
