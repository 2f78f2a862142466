"""`polyseme compare`."""

import json

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from polyseme.encoding.compare import Occurrence, compare
from polyseme.encoding.stages import Stages
from polyseme.store.folder import read_model
from tests.tiny import LIMITS

TEXTS = ["bank river", "money bank"]


@pytest.fixture(scope="module")
def expected(models_dir):
    model = read_model(models_dir / "tiny")
    occurrences = [Occurrence(text, "bank") for text in TEXTS]
    with threadpool_limits(1):
        return compare(model, occurrences, 2, "auto", LIMITS, Stages())


def test_json_is_the_answer_of_the_service(polyseme, expected):
    done = polyseme("compare", "--json", "--neighbors", "2", "--word", "bank", *TEXTS)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert document["model"] == "tiny"
    assert document["notes"] == expected.notes
    similarity = np.array(document["contextual_similarity"])
    assert similarity.tobytes() == expected.contextual_similarity.tobytes()
    for one, found in zip(expected.occurrences, document["occurrences"], strict=True):
        assert found["shift"] == one.shift
        words = [(n["word"], n["similarity"]) for n in found["contextual_neighbors"]]
        assert words == one.contextual_neighbours


def test_the_table_names_what_each_occurrence_looks_at_and_its_neighbours(polyseme, expected):
    done = polyseme("compare", "--neighbors", "2", "--word", "bank", *TEXTS)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.strip() for line in done.stdout.decode().splitlines()]
    for number, one in enumerate(expected.occurrences):
        start = lines.index(f"{number}  bank  (exact, shift {one.shift:.2f})")
        attends_to, static, contextual = (line.split(maxsplit=2) for line in lines[start + 1 :][:3])
        assert attends_to[2] == ", ".join(f"{t.text} {w:.2f}" for t, w in one.attends_to)
        assert static == [
            "static",
            *", ".join(w for w, _ in one.static_neighbours).split(maxsplit=1),
        ]
        assert contextual[1].rstrip(",") == one.contextual_neighbours[0][0]
    assert "static       1.00  1.00" in lines
    assert lines[-1] == f"note: {expected.notes[0]}"


def test_each_text_may_have_its_word_and_a_text_given_twice_is_its_next_time(polyseme):
    texts = ["bank river bank", "bank river bank", "money"]
    words = ["--word", "bank", "--word", "bank", "--word", "money"]
    done = polyseme("compare", "--json", *words, *texts)
    starts = [one["token"]["start"] for one in json.loads(done.stdout)["occurrences"]]
    assert starts == [0, 11, 0]


def test_a_word_that_the_text_lacks_ends_in_one_sentence_and_its_place(polyseme):
    done = polyseme("compare", "--word", "bank", "bank", "river")
    assert (done.returncode, done.stdout) == (1, b"")
    (sentence,) = done.stderr.decode().splitlines()
    assert sentence.startswith("polyseme: the text has this word as a token 0 times")
    assert sentence.endswith("(/occurrences/1/word).")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--word", "bank", "bank"],
        ["--word", "a", "--word", "b", "a", "b", "c"],
        ["bank", "bank"],
        ["--neighbors", "101", "--word", "bank", "bank", "bank"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_compared_is_a_usage_error(polyseme, arguments):
    done = polyseme("compare", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith("Usage: ")
