"""Subword vectors fitted to a file's own words."""

from collections import Counter

import numpy as np
import pytest

from polyseme.engine import unit
from polyseme.engine.quantization import QuantizedRows
from polyseme.engine.subwords import distinct_ngrams, ngram_hashes
from polyseme.importing import subwords as fitting
from polyseme.importing.subwords import fit_subwords
from tests.importing.files import rows

STEMS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]
ENDINGS = ["ing", "ed", "er", "ness"]
LETTERS = str.maketrans("abcdefghijklmnopqrstuvwx", "ωψχφυτσρποξνμλκιθηζεδγβα")
WORDS = [stem + ending for stem in STEMS for ending in ENDINGS]


@pytest.fixture(scope="module")
def vectors():
    """Sums of a vector of the stem and one of the ending, which n-grams can compose. -> [V, d]"""
    rng = np.random.default_rng(3)
    letters = rng.standard_normal((3, 128, 20))
    stems = np.array([sum(letters[i, ord(one)] for i, one in enumerate(s)) for s in STEMS])
    endings = 2 * rng.standard_normal((len(ENDINGS), 20))
    return (5 * (stems[:, None] + endings)).reshape(-1, 20).astype(np.float32)


def test_held_out_words_are_composed_near_their_own_vectors(vectors):
    held_out = np.arange(len(WORDS)) % 7 == 0
    words = np.array(WORDS)
    fitted = fit_subwords(words[~held_out].tolist(), vectors[~held_out])
    assert isinstance(fitted.table, QuantizedRows)
    composed = fitted.vectors(words[held_out].tolist())
    cosines = np.vecdot(unit(composed), unit(vectors[held_out]))
    assert cosines.mean() > 0.8
    # Ridge regression shrinks: composed vectors are shorter than known ones.
    norms = np.linalg.norm(composed, axis=1)
    assert np.median(norms) < np.median(np.linalg.norm(vectors, axis=1))


def test_the_table_minimizes_the_documented_loss(vectors, monkeypatch):
    # Conjugate gradients until convergence, compared with the normal equations.
    monkeypatch.setattr(fitting, "MAX_ITERATIONS", 200)
    ngrams = distinct_ngrams(WORDS[:1200], *fitting.NGRAMS)[:300]
    design = fitting._design(WORDS[:1200], ngrams)
    targets = unit(vectors[:1200])
    *_, found = fitting._solutions(design, targets)
    dense = design.toarray().astype(np.float64)
    expected = np.linalg.solve(dense.T @ dense + fitting.RIDGE * np.eye(300), dense.T @ targets)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_most_frequent_ngrams_have_a_row_each(vectors):
    fitted = fit_subwords(WORDS, vectors, 100)
    counts = Counter(ngram for word in WORDS for ngram in ngram_hashes([word], 2, 4)[0].tolist())
    least = sorted(counts.values(), reverse=True)[99]
    assert len(fitted.ngrams) == len(fitted.table) == 100
    assert (np.diff(fitted.ngrams.astype(np.int64)) > 0).all()
    assert all(counts[ngram] >= least for ngram in fitted.ngrams.tolist())
    # A vector is the mean of the rows of the known n-grams.
    (hashes,) = ngram_hashes(["nabbing"], 2, 4)
    places = [fitted.ngrams.tolist().index(one) for one in hashes.tolist() if one in fitted.ngrams]
    expected = fitted.table[places].mean(axis=0)
    np.testing.assert_allclose(fitted.vectors(["nabbing"])[0], expected, rtol=1e-5)


def test_exchanged_letters_give_the_same_bits(vectors):
    """No language is assumed."""
    latin = fit_subwords(WORDS, vectors)
    greek = fit_subwords([word.translate(LETTERS) for word in WORDS], vectors)
    assert latin.coverage == greek.coverage
    unknown = ["gabbling", "fabbingness", "dedness"]
    composed = latin.vectors(unknown)
    assert composed.any(axis=1).all()
    assert np.array_equal(greek.vectors([w.translate(LETTERS) for w in unknown]), composed)


def test_a_large_vocabulary_is_sampled_and_zero_vectors_are_skipped(vectors, monkeypatch):
    monkeypatch.setattr(fitting, "MAX_WORDS", 1100)
    holes = vectors.copy()
    holes[::50] = 0
    rows, norms = fitting._usable_rows(WORDS, holes)
    assert len(rows) < 1100 and holes[rows].any(axis=1).all()
    np.testing.assert_allclose(norms, np.linalg.norm(holes[rows], axis=1), rtol=1e-6)
    assert fit_subwords(WORDS, holes) is not None


@pytest.mark.parametrize(
    ("count", "options", "dtype"),
    [(2880, [], "int8"), (1200, ["--no-subwords"], None), (50, [], None)],
)
def test_an_import_fits_subwords_unless_they_are_switched_off(
    importer, vectors, count, options, dtype
):
    model = importer.model(rows(WORDS[:count], vectors[:count]), *options)
    assert (model.subwords and model.manifest.subwords.dtype) == dtype
    assert model.manifest.dtype == "float32"


def test_subwords_of_a_small_file_are_rejected(importer, vectors):
    message = importer.refusal(rows(WORDS[:50], vectors[:50]), "--subwords")
    assert message == (
        "Subwords need at least 1,000 words with a nonzero vector, and there are fewer;"
        " --no-subwords does without."
    )


@pytest.mark.parametrize("scale", [1e-38, 1e36])
def test_vectors_of_any_size_give_finite_subwords(vectors, scale):
    fitted = fit_subwords(WORDS, vectors * np.float32(scale), 64)
    assert np.isfinite(fitted.vectors(["nabbing", "tubed"])).all()
