"""The results of a service are those of a local model, and its key is never stored."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import spacy

from polyseme.errors import UnauthorisedError, UnknownModelError
from polyseme.integrations import forget, open_encoder
from polyseme.integrations.sklearn import ContextualVectorizer
from tests.conftest import start
from tests.integrations import pipeline

pytestmark = pytest.mark.slow

KEY = "a-key-that-is-nowhere-stored-7f3a"
TEXTS = ["river bank money apple did high end. end bank.", "", "bank", "  "]


@pytest.fixture(scope="module")
def address(models, tmp_path_factory):
    """A service of the model with weights, which requires a key."""
    log = tmp_path_factory.mktemp("serve") / "log"
    process, address = start(log, models_dir=models / "deep", model="tiny", api_keys=KEY)
    yield address
    process.terminate()
    process.wait(30)


@pytest.fixture(autouse=True)
def _no_local_model(deep, tmp_path, monkeypatch):  # noqa: ARG001 - replaces the variable of `deep`
    """Set the key and an empty folder of models, so that only the service has a model."""
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(tmp_path))
    monkeypatch.setenv("POLYSEME_API_KEY", KEY)


def pipeline_of(address):
    return pipeline("sentencizer", url=address, model=None, most=4, attention="heads")


def test_a_document_encoded_by_a_service_has_the_arrays_of_the_model(deep, address):
    docs = list(pipeline_of(address).pipe(TEXTS, n_process=2, batch_size=2))
    assert [doc.text for doc in docs] == TEXTS
    words = [token.text for token in docs[0]]
    chunks = [words[:4], words[4:8], words[8:]]
    alone = deep.encode(chunks, layers="last")
    assert np.array_equal(docs[0].tensor, np.concatenate([one.contextual for one in alone]))
    assert np.array_equal(docs[0]._.attention[:, 4:8, 4:8], alone[1].attention[0])
    assert np.array_equal(docs[2][0]._.static, deep.encode([["bank"]])[0].static[0])


def test_sentence_vectors_are_those_of_the_model(deep, address):
    vectorizer = ContextualVectorizer(url=address, dimensions=3)
    found = vectorizer.fit_transform([*TEXTS, "qzx"] * 30)
    assert np.array_equal(found, deep.embed([*TEXTS, "qzx"] * 30, dimensions=3))
    assert len(vectorizer.get_feature_names_out()) == 3


def test_the_key_is_stored_nowhere(address, tmp_path):
    nlp = pipeline_of(address)
    doc = nlp(TEXTS[0])
    nlp.to_disk(tmp_path / "stored")
    (tmp_path / "doc").write_bytes(doc.to_bytes())
    vectorizer = ContextualVectorizer(url=address).fit(TEXTS)
    vectorizer.transform(TEXTS)
    (tmp_path / "pickle").write_bytes(pickle.dumps([vectorizer, nlp.get_pipe("polyseme")]))
    stored = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(address.encode() in data for data in stored)
    assert not any(KEY.encode() in data for data in stored)


def test_errors_of_the_service_are_raised_as_local_exceptions(address, monkeypatch):
    with pytest.raises(UnknownModelError):
        ContextualVectorizer("absent", url=address)
    with pytest.raises(UnknownModelError):
        spacy.blank("en").add_pipe("polyseme", config={"url": address, "model": "absent"})
    monkeypatch.setenv("POLYSEME_API_KEY", "another")
    forget()
    with pytest.raises(UnauthorisedError):
        pipeline_of(address)


def test_each_process_opens_an_encoder_once(address):
    here = open_encoder(None, address)
    assert open_encoder(None, address) is here
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert not pool.submit(is_opened, address, id(here)).result()


def is_opened(address, identity):
    """Whether the encoder of this process is the object with an identity."""
    return id(open_encoder(None, address)) == identity
