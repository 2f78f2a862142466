"""spaCy documents are stored, sent to other processes and compared with their vectors."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from polyseme.integrations.spacy import add_hooks
from tests.integrations.documents import STATIC, TEXT, attention_by_hand, pipeline, same_arrays

pytestmark = pytest.mark.usefixtures("plain")


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
