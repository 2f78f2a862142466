"""spaCy documents get vectors and attention, which are stored, sent and compared with them."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import spacy
from scipy.linalg import block_diag
from spacy.tokens import Doc, DocBin

from polyseme.errors import PolysemeError, UnknownWordError
from polyseme.integrations.spacy import add_hooks
from tests.integrations import (
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


@pytest.mark.parametrize(
    ("before", "settings", "chunks"),
    [
        (["sentencizer"], {}, ["river bank .", "money bank ."]),
        (["sentencizer"], {"context": "document"}, ["river bank . money bank ."]),
        ([], {}, ["river bank . money bank ."]),
        ([], {"most": 3}, ["river bank money"]),
        ([], {"most": 3}, ["river bank money", "apple did high"]),
        ([], {"most": 3}, ["river bank money", "apple did", "high end"]),
    ],
)
def test_a_sentence_or_an_even_chunk_is_encoded_by_itself(deep, before, settings, chunks):
    doc = pipeline(*before, **settings)(" ".join(chunks))
    alone = deep.encode([chunk.split() for chunk in chunks], layers="last", heads="mean")
    assert np.array_equal(doc.tensor, np.concatenate([one.contextual for one in alone]))
    assert np.array_equal(doc._.attention, block_diag(*(one.attention[0] for one in alone)))
    assert all(np.array_equal(token._.attention, doc._.attention[token.i]) for token in doc)


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


def cosine(left, right):
    left, right = left.astype(np.float64), right.astype(np.float64)
    return left @ right / np.sqrt((left @ left) * (right @ right))


def test_a_component_is_pickled_without_its_model():
    component = pipeline().get_pipe("polyseme")
    doc, other = (Doc(spacy.blank("en").vocab, ["river", "bank"]) for _ in range(2))
    component(doc)
    pickled = pickle.dumps(component)
    assert len(pickled) < 1000
    assert same_arrays(pickle.loads(pickled)(other), doc)


RELOADED = """
import sys, numpy, spacy
assert "polyseme" not in sys.modules
nlp = spacy.load(sys.argv[1])
numpy.save(sys.argv[2], nlp("river bank money").tensor)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("deep")
def test_a_stored_pipeline_loads_in_a_process_that_imports_only_spacy(tmp_path):
    nlp = pipeline(attention="heads", layer=1)
    nlp.to_disk(tmp_path / "pipeline")
    command = [sys.executable, "-c", RELOADED, tmp_path / "pipeline", tmp_path / "tensor.npy"]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert np.array_equal(np.load(tmp_path / "tensor.npy"), nlp("river bank money").tensor)


@pytest.mark.usefixtures("deep")
def test_a_document_is_stored_with_its_vectors():
    doc = pipeline("sentencizer", most=2)("river bank money. the end")
    assert same_arrays(Doc(doc.vocab).from_bytes(doc.to_bytes()), doc)
    doc_bin = DocBin(docs=[doc], store_user_data=True)
    (read,) = DocBin().from_bytes(doc_bin.to_bytes()).get_docs(doc.vocab)
    assert np.array_equal([token._.contextual for token in read], doc.tensor)
    assert np.array_equal(read._.attention, doc._.attention)


def test_the_vectors_of_tokens_merged_later_are_an_error():
    doc = pipeline()("river bank money")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(ValueError, match="add the component `polyseme` after"):
        _ = doc[1]._.static


@pytest.mark.usefixtures("deep")
def test_spacys_similarity_separates_two_occurrences_of_a_word():
    doc = pipeline("sentencizer", hooks=True)("river bank . money bank .")
    first, second = doc[1], doc[4]
    expected = cosine(doc.tensor[1], doc.tensor[4])
    assert expected < 0.9999
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first.similarity(second) == pytest.approx(expected, abs=1e-6)
        assert doc[1:2].similarity(doc[4:5]) == pytest.approx(expected, abs=1e-6)
        assert doc.similarity(doc) == pytest.approx(1)
    assert np.array_equal(first.vector, doc.tensor[1]) and first.has_vector


def test_the_vector_of_a_document_is_the_mean_of_its_words():
    doc = pipeline(hooks=True)(TEXT)
    mean = (attention_by_hand() @ STATIC)[[0, 2, 4, 5]].mean(axis=0)
    assert doc.vector == pytest.approx(mean, abs=1e-6)
    assert doc[:3].vector == pytest.approx(doc.tensor[[0, 2]].mean(axis=0), abs=1e-6)
    blank = pipeline(hooks=True)(" ")
    assert not blank.vector.any() and not blank.has_vector
    assert blank.similarity(doc) == 0


@pytest.mark.usefixtures("deep")
def test_hooks_are_added_to_a_stored_document_but_not_to_an_unencoded_one():
    nlp = pipeline()
    doc = Doc(nlp.vocab).from_bytes(nlp("river bank money bank").to_bytes())
    add_hooks(doc, "contextual")
    assert doc[1].similarity(doc[3]) == pytest.approx(cosine(doc.tensor[1], doc.tensor[3]))
    with pytest.raises(ValueError, match="run the component `polyseme` on it"):
        add_hooks(spacy.blank("en")(TEXT))
