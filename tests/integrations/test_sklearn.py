"""The transformer behaves like scikit-learn's own ones."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.utils import estimator_checks as checks
from sklearn.utils.validation import check_is_fitted

from polyseme.client.local import LocalModel
from polyseme.errors import PolysemeError
from polyseme.integrations.sklearn import ContextualVectorizer
from tests.tiny import VECTORS, WORDS, tiny_model

TEXTS = ["river bank", "money bank money", "qzx", "", "Apple"]
D = 5


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The model `tiny` and its parent folder; each word weighs half as much as the one before."""
    folder = tmp_path_factory.mktemp("models")
    bias = -np.log(2, dtype=np.float32) * np.arange(len(WORDS), dtype=np.float32)
    return tiny_model(folder, word_bias=bias), folder


@pytest.fixture(autouse=True)
def _models_dir(models, monkeypatch):
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(models[1]))


def vectorizer(**changes):
    return ContextualVectorizer("tiny", **changes)


DATA_FREE = (
    *("check_estimator_cloneable", "check_estimator_repr"),
    *("check_estimator_sparse_tag", "check_estimator_tags_renamed"),
    *("check_get_params_invariance", "check_mixin_order", "check_no_attributes_set_in_init"),
    *("check_parameters_default_constructible", "check_set_params", "check_valid_tag_types"),
)
"""scikit-learn's checks that need no numeric data; `check_estimator` skips nearly all checks of an
estimator of texts. `check_do_not_raise_errors_in_init_or_set_params` is left out, because the
constructor rejects an unknown model."""


def test_scikit_learns_checks_pass():
    with pytest.warns(checks.SkipTestWarning, match="requires input"):
        results = checks.check_estimator(ContextualVectorizer("tiny"), on_fail=None)
    assert {result["status"] for result in results} == {"passed"}
    for name in DATA_FREE:
        if hasattr(checks, name):
            getattr(checks, name)("ContextualVectorizer", ContextualVectorizer("tiny"))


def test_a_text_is_the_normalized_weighted_mean_of_its_words():
    pooled = vectorizer(pooling="informativeness")
    found = pooled.fit_transform([["apple"], ["apple", "bank"], ["qzx"]])
    apple, bank = VECTORS[WORDS.index("apple")], VECTORS[WORDS.index("bank")]
    # Scores: apple·apple = 1, apple·bank = 1, bank·bank = 2; bank weighs 1/8 of apple.
    e = np.e
    mean = (apple + bank) / 2 + (apple + e * bank) / (1 + e) / 8
    assert found == pytest.approx(np.stack([apple, mean / np.linalg.norm(mean), 0 * apple]))
    assert found.dtype == np.float32


@pytest.mark.parametrize("parameters", [{}, {"pooling": "mean", "dimensions": 2}], ids=str)
@pytest.mark.parametrize("kind", [list, tuple, np.array], ids=str)
def test_texts_are_any_iterable_of_strings_or_lists_of_words(kind, parameters):
    words = ["river", "bank"]
    for given, texts in [(kind(TEXTS), TEXTS), (kind([]), []), ([kind(words)], [words])]:
        expected = LocalModel.of("tiny").embed(texts, **parameters)
        transformer = vectorizer(**parameters)
        check_is_fitted(transformer)  # fitting is optional
        assert np.array_equal(transformer.fit([]).transform(given), expected)
        assert expected.shape == (len(texts), parameters.get("dimensions", D))


TABLE = np.array([[text] for text in TEXTS], object)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *((["river", value], "Text 1 is neither") for value in (None, float("nan"), 3, b"river")),
        (["river", ["river", None]], "Text 1 is neither"),
        ("river", "Give a list of texts"),
        (TABLE, "Give one column of texts"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_what_is_no_column_of_texts_is_rejected(method, wrong, message):
    with pytest.raises(TypeError, match=message):
        getattr(vectorizer(), method)(wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dimensions": D + 1}, " `dimensions`: must be "),
        ({"pooling": "max"}, " `pooling`: must be "),
        ({"model": "absent"}, r"^No model is named 'absent'\. Available: wiki-en, tiny"),
    ],
)
def test_an_invalid_parameter_is_rejected_when_it_is_set_and_used(wrong, message):
    with pytest.raises(PolysemeError, match=message):
        ContextualVectorizer(**{"model": "tiny", **wrong})
    for method in ("fit", "transform"):
        changed = vectorizer().set_params(**wrong)
        with pytest.raises(PolysemeError, match=message):
            getattr(changed, method)(TEXTS)


def test_a_data_frame_is_returned_on_request():
    pd = pytest.importorskip("pandas", reason="needs the extra `pandas`")
    table = pd.DataFrame({"text": ["river bank", "qzx"], "number": [1, 2]}, index=["a", "b"])
    framed = vectorizer(dimensions=2).set_output(transform="pandas")
    frame = framed.fit_transform(table["text"])
    assert list(frame.columns) == ["contextualvectorizer0", "contextualvectorizer1"]
    assert list(frame.index) == ["a", "b"]
    assert np.array_equal(frame, vectorizer(dimensions=2).transform(["river bank", "qzx"]))
    columns = make_column_transformer((vectorizer(), "text"), remainder="passthrough").fit(table)
    assert np.array_equal(columns.transform(table)[:, -1], table["number"])
    names = [f"contextualvectorizer__contextualvectorizer{n}" for n in range(D)]
    assert columns.get_feature_names_out().tolist() == [*names, "remainder__number"]
    with pytest.raises(TypeError, match="one column of texts"):
        framed.transform(table[["text"]])


def test_clones_and_pickles_give_the_same_vectors_and_contain_no_model():
    fitted = vectorizer(dimensions=4).fit(TEXTS)
    expected = fitted.transform(TEXTS)
    pickled = pickle.dumps(fitted)
    assert len(pickled) < 1000
    for copy in (clone(fitted), pickle.loads(pickled)):
        assert copy.get_params() == fitted.get_params()
        assert np.array_equal(copy.transform(TEXTS), expected)
