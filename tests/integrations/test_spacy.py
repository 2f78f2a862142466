"""spaCy documents get the vectors and the attention of spaCy's tokens."""

from itertools import pairwise

import numpy as np
import pytest
import spacy

from polyseme.errors import PolysemeError, UnknownWordError
from tests.integrations.documents import (
    BANK,
    STATIC,
    TEXT,
    TOKENS,
    D,
    H,
    attention_by_hand,
    pipeline,
    same_arrays,
)
from tests.tiny import VECTORS, WORDS

pytestmark = pytest.mark.usefixtures("plain")


def test_each_row_belongs_to_a_spacy_token():
    doc = pipeline()(TEXT)
    assert [token.text for token in doc] == TOKENS
    assert np.array_equal([token._.static for token in doc], STATIC)
    weights = attention_by_hand()
    assert doc._.attention == pytest.approx(weights, abs=1e-6)
    # Without weights, the contextual vector is the weighted mean of the static ones.
    assert doc.tensor == pytest.approx(weights @ STATIC, abs=1e-6)
    assert doc.tensor.dtype == np.float32
    for token in doc:
        assert np.array_equal(token._.contextual, doc.tensor[token.i])
        assert np.array_equal(token._.attention, doc._.attention[token.i])
    # Without attention, and before the component has run.
    other = pipeline(attention="none")
    doc, unencoded = other(TEXT), other.make_doc(TEXT)
    assert doc._.attention is None and doc[0]._.attention is None
    assert np.array_equal(doc[2]._.static, BANK)
    assert unencoded._.attention is None
    names = ("static", "contextual", "attention")
    assert [getattr(unencoded[0]._, name) for name in names] == [None] * 3


def test_a_document_without_words_is_accepted():
    for doc in pipeline("sentencizer").pipe(["", "\n\n \t"]):
        assert doc.tensor.shape == (len(doc), D)
        assert not doc.tensor.any()
        assert doc._.attention is None


def test_a_document_is_encoded_by_sentence_if_it_has_sentences(deep):
    doc = pipeline("sentencizer")("river bank . money bank .")
    alone = deep.encode([["river", "bank", "."], ["money", "bank", "."]], layers="last")
    assert np.array_equal(doc.tensor, np.concatenate([one.contextual for one in alone]))
    expected = np.zeros((6, 6), np.float32)
    for start, one in zip((0, 3), alone, strict=True):
        expected[start : start + 3, start : start + 3] = one.attention[0].mean(axis=0)
    assert doc._.attention == pytest.approx(expected, abs=1e-6)
    assert np.array_equal(doc[4]._.attention, doc._.attention[4])


def test_the_whole_document_is_encoded_on_request(deep):
    (whole,) = deep.encode([["river", "bank", ".", "money", "bank", "."]])
    for nlp in (pipeline("sentencizer", context="document"), pipeline()):
        assert np.array_equal(nlp("river bank . money bank .").tensor, whole.contextual)


@pytest.mark.parametrize("layer", [0, None])
def test_each_head_of_a_layer_is_returned_on_request(deep, layer):
    nlp = pipeline(attention="heads", layer=layer)
    shown = f"Contextualizer({deep!r}, vectors='contextual')"
    assert repr(nlp.get_pipe("polyseme")) == shown
    doc = nlp("river bank money")
    (one,) = deep.encode([["river", "bank", "money"]])
    assert doc._.attention.shape == (H, 3, 3)
    assert np.array_equal(doc._.attention, one.attention[1 if layer is None else layer])
    assert np.array_equal(doc[1]._.attention, doc._.attention[:, 1])


@pytest.mark.parametrize("cuts", [(0, 3), (0, 3, 6), (0, 3, 5, 7)])
def test_long_documents_are_split_into_even_chunks(deep, cuts):
    words = ["river", "bank", "money", "apple", "did", "high", "end"][: cuts[-1]]
    doc = pipeline(most=3)(" ".join(words))
    chunks = [words[start:end] for start, end in pairwise(cuts)]
    alone = deep.encode(chunks, layers="last", heads="mean")
    assert np.array_equal(doc.tensor, np.concatenate([one.contextual for one in alone]))
    attention = np.zeros((len(words), len(words)), np.float32)
    for (start, end), one in zip(pairwise(cuts), alone, strict=True):
        attention[start:end, start:end] = one.attention[0]
    assert np.array_equal(doc._.attention, attention)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"most": 0}, "must be 1 or more"),
        ({"vectors": "dynamic"}, "'dynamic' is not"),
        ({"model": "absent"}, r"^No model is named 'absent'\. Available: wiki-en, tiny"),
        ({"layer": 9}, " `layer`: the model has one layer, 0"),
        ({"oov": "subword"}, " `oov`: this model has no subword vectors"),
    ],
)
def test_an_unsupported_option_is_rejected_when_the_component_is_created(wrong, message):
    with pytest.raises((PolysemeError, ValueError), match=message):
        pipeline(**wrong)


def test_case_and_unknown_words_are_treated_as_configured():
    for text, words in {"APPLE": ["apple"], "didn't": ["did", "n't"]}.items():
        doc = pipeline(case="lower")(text)
        expected = [VECTORS[WORDS.index(word)] for word in words]
        assert np.array_equal([token._.static for token in doc], expected)
    with pytest.raises(UnknownWordError):
        pipeline(oov="error")("river qzx")


def test_a_batch_is_one_call_with_the_results_of_single_documents(calls):
    texts = ["river bank. the end.", "", "money bank. end.", "apple " * 600]
    nlp = pipeline("sentencizer")
    docs = list(nlp.pipe(texts, batch_size=3))
    # The component encodes one text to check its options; 600 tokens are two chunks.
    assert [len(one) for one in calls] == [1, 4, 2]
    assert [doc.text for doc in docs] == texts
    assert all(same_arrays(doc, nlp(doc.text)) for doc in docs if doc.text)


def test_the_error_handler_gets_the_failed_batch():
    nlp, failed = pipeline(oov="error"), []
    nlp.set_error_handler(lambda name, _, docs, error: failed.append((name, docs, error)))
    texts = ["river", "qzx", "bank"]
    assert [doc.text for doc in nlp.pipe(texts, batch_size=1)] == ["river", "bank"]
    ((name, (doc,), error),) = failed
    assert (name, doc.text, type(error)) == ("polyseme", "qzx", UnknownWordError)


@pytest.mark.parametrize("kind", ["contextual", None])
def test_the_setting_vectors_selects_the_vector_of_a_token(deep, kind):
    nlp, unhooked = spacy.blank("en"), spacy.blank("en")
    selected = {} if kind is None else {"vectors": kind}  # features by default
    for pipe, hooks in ((nlp, {}), (unhooked, {"hooks": False})):
        pipe.vocab.set_vector("bank", np.ones(3, np.float32))
        pipe.add_pipe("polyseme", config={"model": "tiny", **selected, **hooks})
    doc = nlp("river bank")
    part = kind or "features"
    rows = getattr(deep.encode([["river", "bank"]], include=[part])[0], part)
    assert np.array_equal(doc.tensor, rows) and np.array_equal(doc[1].vector, rows[1])
    assert np.array_equal(getattr(doc[1]._, part), rows[1])
    assert np.array_equal(doc[1:].vector, rows[1])
    assert doc.vector == pytest.approx(rows.mean(axis=0))
    assert unhooked("river bank")[1].vector.tolist() == [1, 1, 1]
