"""Requests in any order, while models change and workers are killed: one question, one answer."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from polyseme.api.responses import CompareReply, EncodeReply, NeighborsReply, TraceReply
from tests.faults.answers import PROBLEM, Answer, fault_of
from tests.faults.asking import REFUSED
from tests.faults.processes import Service, running, until
from tests.faults.requests import NAME, headed, posted
from tests.faults.sending import Kept, converse
from tests.server.service import encode, every_worker, write

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]

PARTS = ("static", "contextual", "attention", "queries", "keys", "values", "scores")
KINDS = ("application/json", "application/x-npz", "application/x-ndjson")
WORDS = st.sampled_from(["apple", "Apple", "bank", "river", "money", "did", "qzx", "end", "high"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
OPTIONS = st.fixed_dictionaries(
    {"model": st.sampled_from([NAME, "one"])},
    optional={
        "include": st.lists(st.sampled_from(PARTS), min_size=1, unique=True),
        "layers": st.sampled_from(["all", "last", [0]]),
        "heads": st.sampled_from(["all", "mean"]),
        "oov": st.sampled_from(["zero", "error"]),
        "case": st.sampled_from(["auto", "exact", "lower"]),
        "truncate": st.booleans(),
        "encoding": st.sampled_from(["float", "base64"]),
        "dtype": st.sampled_from(["float32", "float16"]),
    },
)
REPLIES = {
    "/v1/encode": EncodeReply,
    "/v1/compare": CompareReply,
    "/v1/trace": TraceReply,
    "/v1/neighbors": NeighborsReply,
}


class World:
    """The service, what was answered so far, and which version of the model `one` there is."""

    def __init__(self, service: Service, place: Path) -> None:
        self.service, self.place = service, place
        self.version: int | None = 1
        self.kept = Kept(service.address)
        self.known: dict[tuple[bytes, int | None], Answer] = {}
        self.asked = self.changes = self.kills = 0

    def send(self, sent: bytes, *, kept: bool) -> Answer:
        """Ask; the answer is the contract's."""
        (answer,) = self.kept.ask(sent) if kept else converse(self.service.address, sent)
        assert fault_of(answer) is None
        self.asked += 1
        return answer

    def ask(self, sent: bytes, *, kept: bool) -> Answer:
        """Ask; what was asked before is answered as it was."""
        answer = self.send(sent, kept=kept)
        before = self.known.setdefault((sent, self.version), answer)
        assert (answer.status, answer.kind) == (before.status, before.kind)
        if answer.kind != PROBLEM:
            assert answer.body == before.body
        return answer

    def change(self, version: int | None) -> None:
        """Let the model come, change or go, in every worker."""
        shutil.rmtree(self.place, ignore_errors=True)
        if version is not None:
            write(self.place, version)
        os.kill(self.service.master, signal.SIGHUP)
        until(lambda: self.versions() == [version, version])
        self.version = version
        self.changes += 1

    def versions(self) -> list[int | None]:
        """What each worker has; a folder that is away until somebody looks is a broken one."""
        try:
            return every_worker(self.service.master, self.service.port, lambda c: encode(c, "one"))
        except AssertionError:
            return []

    def kill(self, number: int) -> None:
        """Kill a worker; the connection that was kept may have been in it."""
        self.kept.close()
        victim = self.service.workers()[number]
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in self.service.workers() and len(self.service.workers()) == 2)
        self.kills += 1


class Sequences(RuleBasedStateMachine):
    """What may happen, in a self.world."""

    world: ClassVar[World]

    @initialize(version=st.sampled_from([None, 2, 3]), number=st.integers(0, 1))
    def begin(self, version: int | None, number: int) -> None:
        """In every example there is a change and a kill, whatever else is drawn."""
        self.world.change(version)
        self.world.kill(number)

    @rule(text=TEXTS, options=OPTIONS, kind=st.sampled_from(KINDS), kept=st.booleans())
    def sentence(self, text: str, options: dict, kind: str, kept: bool) -> None:
        body = orjson.dumps({"input": text, **options}, option=orjson.OPT_SORT_KEYS)
        answer = self.world.ask(posted("/v1/encode", body, ("Accept", kind)), kept=kept)
        if options["model"] == "one" and self.world.version is None:
            assert answer.status == 404
        elif answer.status != 200:
            assert answer.status == 422 and options["oov"] == "error"
        elif kind == KINDS[0]:
            EncodeReply.model_validate_json(answer.body)

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=4), options=OPTIONS, kept=st.booleans())
    def batch(self, texts: list[str], options: dict, kept: bool) -> None:
        """Sentences have in a batch the bits that they have alone."""
        options = {**options, "oov": "zero"}

        def results(given: list[str]) -> list[dict] | None:
            body = orjson.dumps({"input": given, **options}, option=orjson.OPT_SORT_KEYS)
            answer = self.world.ask(posted("/v1/encode", body), kept=kept)
            return orjson.loads(answer.body)["results"] if answer.status == 200 else None

        together = results(texts)
        if together is not None:
            assert together == [results([text])[0] for text in texts]

    @rule(word=WORDS, other=WORDS, model=st.sampled_from([NAME, "one"]), kept=st.booleans())
    def others(self, word: str, other: str, model: str, kept: bool) -> None:
        text = f"{word} river {other}"
        places = [{"text": text, "word": word}, {"text": text, "start": 0, "end": len(word)}]
        for path, body in {
            "/v1/compare": {"occurrences": places, "model": model, "map": True},
            "/v1/trace": {"text": text, "model": model},
            "/v1/neighbors": {"word": word, "model": model, "k": 3},
        }.items():
            answer = self.world.ask(posted(path, orjson.dumps(body)), kept=kept)
            if answer.status == 200:
                REPLIES[path].model_validate_json(answer.body)
            else:
                gone = model == "one" and self.world.version is None
                assert answer.status == (404 if gone else 422)

    @rule(sent=st.sampled_from(sorted(REFUSED.values())), kept=st.booleans())
    def refused(self, sent: bytes, kept: bool) -> None:
        assert self.world.ask(sent, kept=kept).status >= 400

    @rule(kept=st.booleans())
    def models(self, kept: bool) -> None:
        listed = orjson.loads(self.world.send(headed("GET", "/v1/models"), kept=kept).body)["data"]
        there = {NAME} | ({"one"} if self.world.version is not None else set())
        assert {one["id"] for one in listed} == there

    @rule(version=st.sampled_from([None, 1, 2, 3]))
    def change(self, version: int | None) -> None:
        self.world.change(version)

    @rule(number=st.integers(0, 1))
    def kill(self, number: int) -> None:
        self.world.kill(number)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    place = tmp_path / "models" / "one"
    write(place, 1)
    with running(tmp_path, models_dir=place.parent, keep_alive=60) as service:
        yield World(service, place)


def test_the_same_question_has_the_same_bits_whatever_happened_before(world, full, record):
    given = settings(
        max_examples=25 if full else 6,
        stateful_step_count=30 if full else 20,
        derandomize=True,
        database=None,
        deadline=None,
        # What has happened to a service is part of the example, and cannot be made undone.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    here = type("Here", (Sequences,), {"world": world})
    run_state_machine_as_test(here, settings=given)
    assert world.asked > 50
    assert world.changes >= given.max_examples
    assert world.kills >= given.max_examples
    record(
        "fault",
        name="models change and workers are killed between requests",
        tried=world.changes + world.kills,
        answered=world.asked,
        lost=0,
    )
