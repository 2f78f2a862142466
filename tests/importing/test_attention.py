"""The attention of an imported model: by the order of words, by counts, by options."""

import numpy as np
import pytest

from polyseme.engine.layers import IDENTITY
from polyseme.importing.closed_form import sentence_whitening
from polyseme.senses.occurrences import RANDOM_SENTENCES, estimate_projection
from tests.importing import files
from tests.importing.conftest import assert_word_bias
from tests.importing.test_words import abbreviated

UNSORTED = (
    "polyseme: Warning: the words are not sorted by frequency, so all words are treated as"
    " equally informative, which separates senses less well; --sorted overrides this test."
)
UNKNOWN_ORDER = (
    "polyseme: Warning: there are too few words to determine whether they are"
    " sorted by frequency, so all words are treated as equally informative; --sorted declares"
    " that they are sorted."
)
BY_RANK, NONE = "rank in the file", "none: the file is not known to be sorted by frequency"


def make(importer, words, *options):
    """Import words with random vectors; return the model, in closed form, and the warnings."""
    vectors = np.random.default_rng(1).standard_normal((len(words), 3)).astype(np.float32)
    model = importer.model(files.rows(words, vectors), "--no-subwords", *options)
    estimate, *warnings = importer.progress
    assert " words of dimension " in estimate
    return model, warnings


def zipf(count):
    """Frequencies by the Zipf–Mandelbrot law, 1 / (rank + 2.7)."""
    return 1 / (np.arange(1, count + 1) + 2.7)


def assert_word_bias_by_rank(model):
    assert_word_bias(model, zipf(len(model.vocabulary)))
    assert model.manifest.training["informativeness"] == BY_RANK
    expected = sentence_whitening(model.rows, model.word_bias)
    assert np.array_equal(model.whitening.weight, expected.weight)
    assert np.array_equal(model.whitening.bias, expected.bias)


def assert_no_word_bias(model):
    assert model.word_bias is None
    assert not model.layers[0].scoring.word_bias
    assert not {"word_bias", "sentence_whitening"} & set(model.manifest.tensors)
    assert model.whitening == IDENTITY
    assert model.manifest.training["informativeness"] == NONE


ORDERED = [f"{word}{617 * i % 1000:03}" for i, word in enumerate(abbreviated(1000))]
BY_ORDER = {
    "sorted": (ORDERED, [], []),
    "unsorted": (ORDERED[::-1], [], [UNSORTED]),
    "few": (files.WORDS, [], [UNKNOWN_ORDER]),
    "declared as sorted": (files.WORDS, ["--sorted"], []),
    "declared as unsorted": (ORDERED, ["--unsorted"], []),
}


@pytest.mark.parametrize("case", BY_ORDER)
def test_sorted_words_get_a_word_bias_by_their_rank(importer, case):
    words, options, expected = BY_ORDER[case]
    model, warnings = make(importer, words, *options)
    assert warnings == expected
    if case in {"sorted", "declared as sorted"}:
        assert_word_bias_by_rank(model)
    else:
        assert_no_word_bias(model)


def test_an_import_stores_how_senses_are_found(importer):
    words = [f"word{number}" for number in range(RANDOM_SENTENCES)]
    model, _ = make(importer, words)
    assert "senses.safetensors" in model.manifest.files
    estimated = estimate_projection(model)
    for read, expected in zip(model.senses, estimated, strict=True):
        np.testing.assert_array_equal(read, expected)
    model, _ = make(importer, words[1:])
    assert "senses.safetensors" not in model.manifest.files and model.senses is None
