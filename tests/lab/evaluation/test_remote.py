"""`ServiceSource`: a model behind a running service has the same figures as in memory."""

from contextlib import ExitStack

import numpy as np
import pytest

from polyseme.client.client import Client
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.measure import measure_model, measure_service
from polyseme_lab.evaluation.sources import LocalSource, ServiceSource
from polyseme_lab.evaluation.systems import (
    SERVED_NAMES,
    EvaluationConfig,
    systems,
    tabulate,
)
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


@pytest.fixture
def served_by():
    """A source of the service at an address."""
    with ExitStack() as stack:
        yield lambda url, model=None: ServiceSource(stack.enter_context(Client(url, model=model)))


@pytest.mark.parametrize("name", ["tiny", "fast"])
def test_every_vector_is_the_same_to_the_last_bit(address, models_dir, name, served_by):
    model = read_model(models_dir / name)
    asked = [
        TokenizedOccurrence(words, place) for words in SENTENCES for place in range(len(words))
    ]
    local = {n: one.readers[0] for n, one in systems(model, SERVED_NAMES).items()}
    served = {n: one.readers[0] for n, one in systems(None).items()}
    expected = tabulate(LocalSource(model), local, asked)
    found = tabulate(served_by(address(), name), served, asked)
    for system in SERVED_NAMES:
        assert found[system](asked).tobytes() == expected[system](asked).tobytes(), system


def test_the_default_model_of_the_service_is_measured_unless_another_is_named(address, served_by):
    assert served_by(address()).model == "tiny"
    assert served_by(f"{address()}/", "fast").model == "fast"


def test_words_are_known_as_the_model_knows_them(address, models_dir, served_by):
    words = ["bank", "BANK", "zebra", "gnu", "apple"]
    assert served_by(address(), "tiny").knows(words) == [True, True, False, False, True]
    source = LocalSource(read_model(models_dir / "fast"))
    assert served_by(address(), "fast").knows(words) == source.knows(words)


@pytest.mark.parametrize("task", ["coarsewsd", "wic", "similarity"])
def test_figures_over_http_equal_those_in_memory(address, models_dir, tmp_path, task, served_by):
    unpacked(tmp_path, {**COARSE, **WIC})
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    config = EvaluationConfig(task, tmp_path, SERVED_NAMES)
    local = measure_model(read_model(models_dir / "tiny"), config)
    assert measure_service(served_by(address()), config) == local


def test_systems_that_need_weights_are_not_measured_through_a_service(address, tmp_path, served_by):
    config = EvaluationConfig("coarsewsd", tmp_path, ("model", "random", "closed-form"))
    with pytest.raises(CommandError, match="so random, closed-form cannot be measured"):
        measure_service(served_by(address()), config)
