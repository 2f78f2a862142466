"""The load that is held, and what a service grows by while it holds it."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from polyseme.models.registry import bundled_models
from polyseme.settings import BUNDLED
from tests.conftest import ROOT
from tests.faults.asking import Known, known
from tests.faults.processes import Service, running
from tests.faults.requests import posted
from tests.faults.sending import converse
from tests.faults.soaking import Sample, growth, hold, mixed, words

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc"),
]

CONNECTIONS, WORDS = 32, 20
SHARE = 0.8
"""The part of the measured capacity that is held."""
MOST_GROWTH = 0.02
BODIES, SENTENCES = 64, 400


def frequent() -> list[str]:
    """The words of the bundled model that come most often, without the first few."""
    lines = (bundled_models() / BUNDLED / "vocabulary.txt").read_text("utf-8").splitlines()
    return [word for word in lines[100:3100] if word.isalpha()]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_sentences_from_many_connections_are_all_answered(tmp_path, full, record):
    seconds, rng, vocabulary = (10 if full else 2), random.Random(3), frequent()
    bodies = [orjson.dumps({"input": words(rng, vocabulary, WORDS)}) for _ in range(BODIES)]
    (tmp_path / "bodies").write_bytes(b"\n".join(bodies) + b"\n")
    with running(tmp_path) as service:
        for kind in ("application/json", "application/x-npz"):
            command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s"]
            command += ["-s", str(ROOT / "benchmarks" / "posting.lua")]
            command += [
                f"http://127.0.0.1:{service.port}/v1/encode",
                "--",
                str(tmp_path / "bodies"),
            ]
            done = subprocess.run([*command, kind, "keep-alive"], capture_output=True, check=True)
            found = orjson.loads(done.stdout.splitlines()[-1])
            assert found["errors"] == 0
            assert found["requests"] > 0
            rate = found["requests"] / found["seconds"]
            told = {name: round(found[name], 1) for name in ("p50_ms", "p99_ms")}
            record("load", accept=kind, rate=round(rate), connections=CONNECTIONS, **told)


def large(service: Service) -> Known:
    """A question whose answer is sent as it is made, and its answer."""
    rng, vocabulary = random.Random(4), frequent()
    sentences = [words(rng, vocabulary, 40) for _ in range(150)]
    body = {"input": sentences, "include": ["static", "contextual"]}
    sent = posted("/v1/encode", orjson.dumps(body))
    (answer,) = converse(service.address, sent)
    assert answer.headers["transfer-encoding"] == "chunked"
    return Known(sent, 200, answer.body)


def varied(service: Service) -> list[Known]:
    """Sentences of words that the tokenizer does not all remember, and their answers."""
    rng, found = random.Random(5), []
    vocabulary = frequent()
    for _ in range(SENTENCES):
        body = {"input": words(rng, vocabulary, WORDS), "include": ["contextual"]}
        sent = posted("/v1/encode", orjson.dumps({**body, "encoding": "base64"}))
        (answer,) = converse(service.address, sent)
        found.append(Known(sent, 200, answer.body))
    return found


def test_a_load_that_is_held_for_long_costs_no_answer_and_no_memory(tmp_path, full, record):
    with running(tmp_path) as service:
        workers = service.workers()
        questions = mixed([*known(service), large(service)]) + varied(service)
        trial, _ = hold(service, questions, 20 if full else 3)
        assert [one.wrong or one.lost for one in trial if one.wrong or one.lost] == []
        capacity = sum(one.answered for one in trial) / (20 if full else 3)
        seconds = 600 if full else 10
        minutes: list[int] = []

        def tell(second: float, answered: int) -> None:
            if second // 60 > len(minutes):
                minutes.append(answered)
                sys.stderr.write(f"minute {len(minutes)}: {answered:,} answers\n")

        held, samples = hold(service, questions, seconds, SHARE * capacity, tell)
        assert [one.wrong or one.lost for one in held if one.wrong or one.lost] == []
        assert service.workers() == workers
        answered = sum(one.answered for one in held)
        assert answered > 0.5 * SHARE * capacity * seconds
        first, width = (60, 30) if full else (3, 3)
        grown = growth(samples, first, width)
        assert grown <= (MOST_GROWTH if full else 0.1)
    record(
        "soak",
        seconds=seconds,
        capacity=round(capacity),
        share=SHARE,
        rate=round(answered / seconds),
        answered=answered,
        lost=0,
        growth_percent=round(100 * grown, 2),
        samples=[list(one) for one in samples[:: max(len(samples) // 150, 1)]],
    )


def test_growth_is_what_is_more_at_the_end_than_after_the_start():
    rising = [Sample(float(n), 300 - n, 100 + n) for n in range(101)]
    assert growth(rising, 10, 10) == pytest.approx((195 - 114.5) / 285.5, rel=1e-2)
    assert growth([one._replace(anonymous_mb=7) for one in rising], 10, 10) == 0
