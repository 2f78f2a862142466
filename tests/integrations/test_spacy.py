"""spaCy documents get the vectors and the attention of spaCy's tokens."""

from itertools import pairwise

import numpy as np
import pytest
import spacy

from polyseme.client.local import LocalModel
from polyseme.errors import PolysemeError, UnknownWordError
from polyseme.integrations import spacy as integration
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


def test_words_are_spacys_tokens():
    doc = pipeline()("didn't")
    assert [token.text for token in doc] == ["did", "n't"]
    did, nt = (VECTORS[WORDS.index(word)] for word in ("did", "n't"))
    assert np.array_equal([token._.static for token in doc], [did, nt])


@pytest.mark.parametrize("text", ["", "  ", "\n\n \t"])
def test_a_document_without_words_is_accepted(text):
    doc = pipeline("sentencizer")(text)
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


def test_a_document_longer_than_a_request_is_encoded_in_chunks():
    doc = pipeline()("river bank " * 1250)
    assert len(doc) == 2500
    assert doc[-1]._.attention.sum() == pytest.approx(1, abs=1e-5)
    assert not doc[0]._.attention[512:].any()


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


@pytest.mark.usefixtures("deep")
def test_the_repr_of_a_component_shows_its_model():
    expected = "Contextualizer(LocalModel('tiny', dimension=5, words=11), vectors='static')"
    nlp = pipeline(vectors="static")
    assert repr(nlp.get_pipe("polyseme")) == expected


@pytest.mark.parametrize("layer", [0, 1, None])
def test_each_head_of_a_layer_is_returned_on_request(deep, layer):
    doc = pipeline(attention="heads", layer=layer)("river bank money")
    (one,) = deep.encode([["river", "bank", "money"]])
    assert doc._.attention.shape == (H, 3, 3)
    assert np.array_equal(doc._.attention, one.attention[1 if layer is None else layer])
    assert np.array_equal(doc[1]._.attention, doc._.attention[:, 1])


def test_attention_can_be_disabled():
    doc = pipeline(attention="none")(TEXT)
    assert doc._.attention is None and doc[0]._.attention is None
    assert np.array_equal(doc[2]._.static, BANK)


def test_case_and_unknown_words_are_treated_as_configured():
    (apple,) = pipeline(case="lower")("APPLE")
    assert np.array_equal(apple._.static, VECTORS[WORDS.index("apple")])
    with pytest.raises(UnknownWordError):
        pipeline(oov="error")("river qzx")


def test_an_unencoded_document_has_no_vectors():
    doc = spacy.blank("en")(TEXT)
    assert doc._.attention is None
    assert doc[0]._.static is None and doc[0]._.contextual is None and doc[0]._.attention is None


@pytest.mark.usefixtures("deep")
def test_a_stream_has_the_results_of_single_documents():
    texts = ["river bank . the end .", "", "money bank", " \n", "apple " * 40] * 3
    nlp = pipeline("sentencizer", most=16)
    together = list(nlp.pipe(texts, batch_size=4))
    assert [doc.text for doc in together] == texts
    assert all(same_arrays(doc, nlp(doc.text)) for doc in together if doc.text.strip())


def test_a_batch_of_a_stream_is_one_call(monkeypatch):
    calls = []

    class Counting(LocalModel):
        def encode(self, texts, **options):
            calls.append(len(texts))
            return super().encode(texts, **options)

    encoder = Counting.of("tiny")
    monkeypatch.setattr(integration, "open_encoder", lambda *_: encoder)
    assert len(list(pipeline("sentencizer").pipe(["bank. end."] * 10, batch_size=4))) == 10
    assert calls == [1, 8, 8, 4]  # the component encodes one text to check its options


def test_the_error_handler_gets_the_failed_batch():
    nlp, failed = pipeline(oov="error"), []
    nlp.set_error_handler(lambda name, _, docs, error: failed.append((name, docs, error)))
    texts = ["river", "qzx", "bank"]
    assert [doc.text for doc in nlp.pipe(texts, batch_size=1)] == ["river", "bank"]
    ((name, (doc,), error),) = failed
    assert (name, doc.text, type(error)) == ("polyseme", "qzx", UnknownWordError)


@pytest.mark.parametrize("kind", ["static", "contextual", "features", None])
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
