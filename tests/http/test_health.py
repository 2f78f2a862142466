"""/readyz: whether the default model answers, and how each model stands."""

import json
import os
import shutil
import subprocess
import sys
import time

import httpx
import pytest
from polyseme.http.replies import LiveReply, NotReadyReply, ReadyReply

from tests.conftest import ROOT, free_port, start
from tests.http.problem import expect_problem
from tests.tiny import write_tiny

SIZE = "vectors.npy has another number of bytes than manifest.json says."


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model `tiny`, one whose vectors were cut, and a folder that is no model."""
    place = tmp_path_factory.mktemp("models")
    write_tiny(place / "tiny")
    vectors = write_tiny(place / "cut") / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    (place / "empty").mkdir()
    return place


def test_a_live_process_says_so(client: httpx.Client) -> None:
    answer = client.get("/livez")
    assert answer.status_code == 200
    assert LiveReply.model_validate(answer.json()).status == "alive"


def test_broken_models_are_reported_and_keep_the_default_one_from_nothing(serve, place) -> None:
    answer = serve(models_dir=place, model="tiny").get("/readyz")
    assert answer.status_code == 200
    ReadyReply.model_validate(answer.json())
    cut = {"id": "cut", "default": False, "status": "broken", "problem": SIZE}
    assert answer.json() == {
        "status": "ready",
        "models": [
            cut,
            {**cut, "id": "empty", "problem": "manifest.json cannot be read."},
            {"id": "tiny", "default": True, "status": "loaded"},
            {"id": "wiki-en", "default": False, "status": "unloaded"},
        ],
    }


def test_a_default_model_that_is_broken_is_said_with_its_reason(serve, place) -> None:
    client = serve(models_dir=place, model="cut")
    answer = client.get("/readyz")
    document = expect_problem(answer, 503, "not_ready")
    NotReadyReply.model_validate(document)
    assert document["detail"] == f"The default model cannot be used: {SIZE}"
    assert int(answer.headers["retry-after"]) > 0
    assert {one["id"]: (one["default"], one["status"]) for one in document["models"]} == {
        "cut": (True, "broken"),
        "empty": (False, "broken"),
        "tiny": (False, "unloaded"),
        "wiki-en": (False, "unloaded"),
    }
    body = {"input": "apple", "model": "tiny"}
    assert client.post("/v1/encode", json=body).status_code == 200


def test_a_broken_default_model_is_named_once_when_the_service_starts(tmp_path, place) -> None:
    """Also one that only reading it whole shows to be broken: a number of it is another."""
    shutil.copytree(place / "tiny", tmp_path / "models" / "tiny")
    vectors = tmp_path / "models" / "tiny" / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4] + b"\x01\x02\x03\x04")
    process, _ = start(tmp_path / "log", models_dir=tmp_path / "models", model="tiny")
    process.terminate()
    process.wait(30)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    lines = [line.get("message", "") for line in lines]
    sentence = "vectors.npy has another checksum than manifest.json says."
    assert lines.count(f"polyseme: tiny is broken: {sentence}") == 1
    assert len([line for line in lines if "is broken" in line]) == 1


EARLY = """
import os, signal
from polyseme.server.config import *

def post_fork(server, worker):
    if worker.age == 1:
        os.kill(os.getpid(), signal.SIGTERM)
"""
EARLIER = """
# On one processor a parent goes on before its child takes a step.
import os, signal
from pathlib import Path
from polyseme.server.config import *

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

def kill():
    children = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    if not told:
        told.append([os.kill(int(pid), signal.SIGTERM) for pid in children])

told = []
os.register_at_fork(after_in_parent=kill)
"""


@pytest.mark.parametrize("moment", [EARLY, EARLIER], ids=["a step", "none"])
def test_a_worker_that_is_told_to_end_before_it_hears_signals_ends(tmp_path, moment) -> None:
    """Else the master waits for it as long as it waits for answers; here, it is replaced."""
    (tmp_path / "config.py").write_text(moment, "utf-8")
    command = [sys.executable, "-m", "gunicorn", "--config", tmp_path / "config.py"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "POLYSEME_PORT": str(free_port()),
        "POLYSEME_WORKERS": "1",
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "polyseme.api.app:create_app()"], env=environment, stderr=log, stdout=log
        )
    booted = 0
    try:
        for _ in range(600):
            booted = (tmp_path / "log").read_text("utf-8").count("Booting worker")
            if booted > 1:
                break
            time.sleep(0.05)
    finally:
        process.terminate()
        process.wait(60)
    assert booted > 1, (tmp_path / "log").read_text("utf-8")
