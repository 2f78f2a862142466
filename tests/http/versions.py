"""A running service with models of known versions, asked on connections that must not close."""

import os
import shutil
import signal
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import orjson

from tests.conftest import start
from tests.tiny import VECTORS as TABLE
from tests.tiny import WORDS, write_tiny

WAIT = 60
SENTENCE = ["apple", "river", "money", "did"]


def write(folder, version):
    """Write a version of a model, whose rows and words no other version has in this order."""
    order = np.roll(np.arange(len(WORDS)), version)
    words = [WORDS[i] for i in order]
    return write_tiny(folder, words=words, vectors=TABLE[order] * version, source=str(version))


def spoil(folder, made):
    """Replace a folder by a broken one, as an importer replaces it: by renaming."""
    new = write(made / folder.name, 99)
    with (new / "vectors.npy").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(0.5).tobytes())
    folder.rename(made / "old")
    new.rename(folder)
    shutil.rmtree(made / "old")


def version_of(result):
    """The version an answer is of, its attention and contextual vectors being right for it."""
    static = np.array(result["static"])
    version = int(static.max() / 2)
    rows = [WORDS.index(word) for word in SENTENCE]
    assert static.tolist() == (TABLE[rows] * version).tolist()
    scores = np.exp(static @ static.T - (static @ static.T).max(axis=1, keepdims=True))
    attention = scores / scores.sum(axis=1, keepdims=True)
    assert np.allclose(np.array(result["attention"])[0, 0], attention, atol=1e-6)
    assert np.allclose(result["contextual"], attention @ static, atol=1e-4)
    return version


@contextmanager
def service(folder, **settings):
    """The process of a service, and its port."""
    process, address = start(folder / "log", **settings)
    try:
        until(lambda: len(workers_of(process.pid)), settings.get("workers", 2))
        yield process.pid, int(address.rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(WAIT)


@contextmanager
def connection_to(port):
    """A connection that is never made a second time: one that is closed fails its next request."""
    connection = HTTPConnection("127.0.0.1", port, timeout=WAIT)
    connection.connect()
    connection.auto_open = 0
    try:
        yield connection
    finally:
        connection.close()


def ask(connection, method, path, body=None):
    """The status and the document of an answer."""
    content = None if body is None else orjson.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, orjson.loads(answer.read())


def encode(connection, model):
    """The version of a model that answers, or None where there is no such model."""
    status, document = ask(connection, "POST", "/v1/encode", {"input": [SENTENCE], "model": model})
    if status == 404:
        assert document["code"] == "unknown_model"
        return None
    assert status == 200, document
    return version_of(document["results"][0])


def workers_of(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def every_worker(pid, port, question):
    """What each worker answers; the others are stopped meanwhile, so that they take nothing."""
    answers = []
    workers = workers_of(pid)
    for worker in workers:
        others = [other for other in workers if other != worker]
        for other in others:
            os.kill(other, signal.SIGSTOP)
        try:
            with connection_to(port) as connection:
                answers.append(question(connection))
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)
    return answers


def until(get, wanted):
    """Wait until something is as wanted."""
    end = time.monotonic() + WAIT
    while (found := get()) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.02)


class Client(threading.Thread):
    """Asks without pause on one connection, and keeps the versions that answered."""

    def __init__(self, port, models):
        super().__init__()
        self.port, self.models = port, models
        self.stopping = threading.Event()
        self.seen = {model: [] for model in models}
        self.wrong = None

    def run(self):
        try:
            with connection_to(self.port) as connection:
                while not self.stopping.is_set():
                    for model in self.models:
                        self.seen[model].append(encode(connection, model))
        except Exception as error:  # noqa: BLE001 - it has to reach the test
            self.wrong = error


@contextmanager
def clients(port, count, models):
    """Clients that ask while the block runs, and whose answers were all right."""
    asking = [Client(port, models) for _ in range(count)]
    for one in asking:
        one.start()
    try:
        yield asking
    finally:
        for one in asking:
            one.stopping.set()
        for one in asking:
            one.join(WAIT)
    assert [one.wrong for one in asking if one.wrong] == []
