"""A model in this process has the bits of the service with any number of BLAS threads."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import polyseme
from polyseme.client import LocalModel
from polyseme.errors import ModelFolderError, TooLargeError
from polyseme.operations.encode import encode
from polyseme.single_thread import SINGLE_THREAD
from tests.client.conftest import require_same

pytestmark = pytest.mark.usefixtures("two_threads")

WORDS = ["the", "bank", "of", "a", "river", "and", "one", "that", "lends", "money"]
LONG = [(WORDS * 80)[:769], (WORDS * 80)[3:700]]
"""So long that two BLAS threads sum in another order than one."""


def threads():
    """The number of threads of NumPy's BLAS; other tests may have loaded SciPy's own."""
    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return [one["num_threads"] for one in found if "scipy.libs" not in one["filepath"]]


@pytest.fixture
def two_threads():
    """Let BLAS use two threads during the test."""
    with threadpool_limits(2, "blas"):
        if max(threads()) < 2:
            pytest.skip("needs two processors")
        yield


@pytest.fixture(scope="module")
def bundled():
    return LocalModel.of()


def computed(model):
    """The contextual vectors with the current number of threads."""
    return [one.arrays["contextual"] for one in encode(model, LONG)]


def test_results_have_the_bits_of_one_thread(bundled):
    def results():
        pairs = [(" ".join(LONG[0]), "river"), (" ".join(LONG[1]), "lends")]
        sentences = [*bundled.encode(LONG), *bundled.encode_each(LONG)]
        return [*sentences, bundled.embed(LONG), bundled.compare(pairs)]

    many = computed(bundled.model)
    with threadpool_limits(1, "blas"):
        one, expected = computed(bundled.model), results()
    require_same(results(), expected)
    if all(map(np.array_equal, many, one)):
        pytest.skip("the BLAS of this machine sums in the same order with two threads")


@pytest.mark.parametrize("set_in_main_thread", [False, True])
def test_other_threads_than_the_main_one_may_encode(bundled, set_in_main_thread):
    with threadpool_limits(1, "blas"):
        (expected,) = bundled.encode(LONG[:1])
    if set_in_main_thread:
        threadpool_limits(2, "blas")
    found = []
    thread = threading.Thread(target=lambda: found.extend(bundled.encode(LONG[:1])))
    thread.start()
    thread.join()
    require_same(found[0], expected)
    assert set(threads()) == {2}


def test_the_last_thread_to_leave_restores_the_thread_limits():
    both_inside, main_left = (threading.Barrier(2, timeout=20) for _ in range(2))

    def other():
        with SINGLE_THREAD:
            both_inside.wait()
            main_left.wait()

    thread = threading.Thread(target=other)
    before = threads()
    with SINGLE_THREAD:
        thread.start()
        both_inside.wait()
    assert set(threads()) == {1}
    main_left.wait()
    thread.join()
    assert threads() == before


def test_the_thread_limits_are_restored_between_two_sentences(bundled):
    before = threads()
    for _ in bundled.encode_each(["river", "bank"]):
        assert threads() == before


def test_sentences_over_the_limit_are_rejected_unless_it_is_raised(monkeypatch):
    text = "the " * 1025
    for call in (polyseme.load().encode, polyseme.load().embed):
        with pytest.raises(TooLargeError, match="1025, over the limit max_sentence_tokens"):
            call([text])
    assert len(polyseme.load(max_sentence_tokens=1025).encode([text])[0].tokens) == 1025
    monkeypatch.setenv("POLYSEME_MAX_SENTENCE_TOKENS", "1025")
    assert len(polyseme.load().encode([text])[0].tokens) == 1025


def test_the_pooling_of_the_environment_is_the_default(monkeypatch):
    expected = polyseme.load().embed(["the river bank"], pooling="mean")
    assert not np.array_equal(polyseme.load().embed(["the river bank"]), expected)
    monkeypatch.setenv("POLYSEME_POOLING", "mean")
    assert np.array_equal(polyseme.load().embed(["the river bank"]), expected)


def test_a_saved_model_is_loaded_by_its_name(local, tmp_path):
    local.save("copy", models_dir=tmp_path)
    (sentence,) = polyseme.load("copy", tmp_path).encode(["river bank"])
    require_same(sentence, local.encode(["river bank"])[0])
    for name, message in {"wiki-en": "bundled", "a/b": "separators", "copy": "exists"}.items():
        with pytest.raises(ModelFolderError, match=message):
            local.save(name, models_dir=tmp_path)
    with pytest.raises(TypeError, match="must be a string"):
        LocalModel.of(5)
