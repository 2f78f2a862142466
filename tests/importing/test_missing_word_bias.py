"""Weights whose layers use a word bias that the file lacks: the import computes it."""

import numpy as np

from polyseme.models.reader import read_model
from tests.importing import files
from tests.importing.test_order import abbreviated
from tests.importing.test_weights import import_weights
from tests.importing.weight_files import LACKING, SQUARE, D, save, tiny_vectors
from tests.tiny import WORDS, normal

RNG = np.random.default_rng(17)
WITH_WORD_BIAS = {"layers": '[{"word_bias": true}]'}
BY_FREQUENCY = [f"{word}{rank:03x}" for rank, word in enumerate(abbreviated(1000))]


def glove(words):
    """A GloVe file of words with random vectors."""
    return files.rows(words, normal(RNG, len(words), D))


def test_a_missing_word_bias_comes_from_the_ranks_of_a_sorted_file(importer):
    """For two words p is proportional to 1/3.7 and 1/4.7: 47/84 and 37/84."""
    given = importer.file(glove(("gnu", "emu")), "two.txt")
    two = import_weights(importer, given, {"query": SQUARE}, "--sorted", metadata=WITH_WORD_BIAS)
    right = [np.log(1e-3 / (1e-3 + p)) for p in (47 / 84, 37 / 84)]
    np.testing.assert_allclose(two.word_bias, right, rtol=1e-6)
    given = importer.file(glove(BY_FREQUENCY), "sorted.txt")
    whole = import_weights(importer, given, {"query": SQUARE}, metadata=WITH_WORD_BIAS)
    cut = import_weights(
        importer, given, {"query": SQUARE}, "--limit", 800, metadata=WITH_WORD_BIAS
    )
    assert (len(whole.word_bias), len(cut.word_bias)) == (1000, 800)
    closed = importer.run(given, "--name", "closed")
    assert closed.code == 0
    assert np.array_equal(whole.word_bias, read_model(importer.models / "closed").word_bias)
    assert whole.manifest.training["informativeness"] == "rank in the file"


def test_a_missing_word_bias_comes_from_counts_if_present(importer):
    weights = {"query": normal(RNG, 3, 3)}
    given = importer.file(files.fasttext(counts=[5, 1, 300, 2]), "counted.bin")
    model = import_weights(importer, given, weights, metadata=WITH_WORD_BIAS)
    p = np.array([5, 1, 300, 2]) / 308
    np.testing.assert_allclose(model.word_bias, np.log(1e-3 / (1e-3 + p)), rtol=1e-6)
    assert model.manifest.training["informativeness"] == "counts in the file"


def test_a_word_bias_that_one_of_two_layers_uses_is_computed(importer):
    tensors = {"query": SQUARE, "layers.1.query": SQUARE}
    for entries in ('[{}, {"word_bias": true}]', '[{"word_bias": true}, {}]'):
        model = import_weights(
            importer, tiny_vectors(importer), tensors, "--sorted", metadata={"layers": entries}
        )
        assert len(model.word_bias) == len(WORDS)
    plain = import_weights(
        importer, tiny_vectors(importer), tensors, "--sorted", metadata={"layers": "[{}, {}]"}
    )
    assert plain.word_bias is None


def test_a_missing_word_bias_is_not_derived_from_an_unsorted_file(importer):
    given = save(importer, {"query": SQUARE}, WITH_WORD_BIAS)
    backwards = glove(BY_FREQUENCY[::-1])
    assert importer.refusal(backwards, "--weights", given, "--name", "a") == LACKING
    in_order = glove(BY_FREQUENCY)
    assert importer.refusal(in_order, "--weights", given, "--name", "a", "--unsorted") == LACKING
