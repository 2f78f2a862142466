"""`ServiceSource`: a model behind a running service has the same figures as in memory."""

import numpy as np
import pytest

from polyseme.client.client import Client
from polyseme.client.results import Sentence, Token
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme_lab.evaluation import sources
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.measure import measure_model, measure_service
from polyseme_lab.evaluation.sources import LocalSource, ServiceSource
from polyseme_lab.evaluation.systems import (
    SERVED_NAMES,
    EvaluationConfig,
    systems,
    tabulate,
)
from tests.conftest import free_port
from tests.lab.evaluation.sets import COARSE, WIC, WORDSIM, unpacked
from tests.tiny import SUBWORDS, full_layer, write_tiny

pytestmark = pytest.mark.slow

SENTENCES = [
    ("end", "bank", "zebra", "river", "Apple"),
    ("zebra",),
    ("Bank", "of", "gnu"),
    *((("river", "bank", "money", "-") * n) for n in range(1, 30)),
]


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    bias = np.linspace(-1, 1, 11)
    write_tiny(place / "tiny", layers=[full_layer(1), full_layer(2)], word_bias=bias)
    write_tiny(place / "fast", subwords=SUBWORDS)
    return place


@pytest.fixture
def address(serve, models_dir):
    """The address of a service with the models and given settings."""

    def start(**settings):
        return str(serve(models_dir=models_dir, model="tiny", workers=1, **settings).base_url)

    return start


@pytest.mark.parametrize("name", ["tiny", "fast"])
def test_every_vector_is_the_same_to_the_last_bit(address, models_dir, name):
    model = read_model(models_dir / name)
    asked = [
        TokenizedOccurrence(words, place) for words in SENTENCES for place in range(len(words))
    ]
    local = {n: one.readers[0] for n, one in systems(model, SERVED_NAMES).items()}
    served = {n: one.readers[0] for n, one in systems(None).items()}
    expected = tabulate(LocalSource(model), local, asked)
    found = tabulate(ServiceSource(address(), name), served, asked)
    for system in SERVED_NAMES:
        assert found[system](asked).tobytes() == expected[system](asked).tobytes(), system


def test_the_default_model_of_the_service_is_measured_unless_another_is_named(address):
    assert ServiceSource(address()).model == "tiny"
    assert ServiceSource(f"{address()}/", "fast").model == "fast"


def test_words_are_known_as_the_model_knows_them(address, models_dir):
    words = ["bank", "BANK", "zebra", "gnu", "apple"]
    assert ServiceSource(address(), "tiny").knows(words) == [True, True, False, False, True]
    source = LocalSource(read_model(models_dir / "fast"))
    assert ServiceSource(address(), "fast").knows(words) == source.knows(words)


@pytest.mark.parametrize("task", ["coarsewsd", "wic", "similarity"])
def test_figures_over_http_equal_those_in_memory(address, models_dir, tmp_path, task):
    unpacked(tmp_path, {**COARSE, **WIC})
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    config = EvaluationConfig(task, tmp_path, SERVED_NAMES)
    local = measure_model(read_model(models_dir / "tiny"), config)
    assert measure_service(ServiceSource(address()), config) == local


def test_a_sentence_that_the_service_rejects_is_reported_with_the_limit(address):
    service = ServiceSource(address(max_sentence_tokens=4))
    assert len(list(service([SENTENCES[1], SENTENCES[2]]))) == 2
    with pytest.raises(CommandError) as caught:
        list(service(SENTENCES[:3]))
    assert caught.value.sentence == (
        "The service rejects a sentence: A sentence has too many tokens: 5, over the"
        " limit max_sentence_tokens of 4. Raise its limit."
    )


def test_a_model_that_the_service_lacks_is_rejected_with_those_it_has(address):
    with pytest.raises(CommandError, match=r"has no such model; it has .*fast, tiny"):
        ServiceSource(address(), "nobody")


def test_systems_that_need_weights_are_not_measured_through_a_service(address, tmp_path):
    config = EvaluationConfig("coarsewsd", tmp_path, ("model", "random", "closed-form"))
    with pytest.raises(CommandError, match="so random, closed-form cannot be measured"):
        measure_service(ServiceSource(address()), config)


def test_an_invalid_address_and_a_service_that_does_not_respond_are_reported(monkeypatch):
    monkeypatch.setattr(sources, "_RETRIES", 1)
    for url, message in (
        ("127.0.0.1:8000", r"must look like http://127\.0\.0\.1:8000"),
        (f"http://127.0.0.1:{free_port()}", "The service does not respond"),
    ):
        with pytest.raises(CommandError, match=message):
            ServiceSource(url)


def test_a_response_with_other_tokens_is_reported(address, monkeypatch):
    token = Token("a", None, None, "a", "exact")
    arrays = dict.fromkeys(("static", "contextual"), np.ones((1, 5), np.float32))
    sentence = Sentence([token], arrays)
    source = ServiceSource(address())
    monkeypatch.setattr(Client, "encode_each", lambda *_, **__: [sentence])
    with pytest.raises(CommandError, match="not Polyseme"):
        list(source([("a", "b")]))
