"""Run the service on loopback for the benchmarks, and send requests to it."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from socket import socket

import httpx
from synthetic import write_glove

ROOT = Path(__file__).parents[1]
PORT = 18_431
_CLIENTS = 8
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "service")}


def import_synthetic(models: Path, words: int, width: int) -> None:
    """Import a synthetic GloVe file as the model `synthetic`."""
    file = models.parent / "synthetic.txt"
    write_glove(file, words, width)
    command = [sys.executable, "-m", "polyseme", "models", "import", str(file)]
    subprocess.run(  # noqa: S603 - our own command
        [*command, "--models-dir", str(models)], check=True, env=_ENVIRONMENT
    )
    file.unlink()


@contextmanager
def starting(
    models: Path, model: str, workers: int, stderr: int = subprocess.DEVNULL, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Run `polyseme serve`."""
    command = [sys.executable, "-m", "polyseme", "serve", "--port", str(PORT), "--model", model]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--workers", str(workers), "--models-dir", str(models)],
        cwd=models,
        env={**_ENVIRONMENT, **environment},
        stderr=stderr,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def served(models: Path, model: str, workers: int) -> Iterator[int]:
    """Serve models; yield the process ID of gunicorn's master."""
    with starting(models, model, workers) as process:
        wait_for_response(PORT, "POST", "/v1/encode", '{"input": "the of and"}')
        yield process.pid


def free_port() -> int:
    """Return a port on which nothing listens."""
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_response(
    port: int, method: str, path: str, body: str | None = None, *, any_status: bool = False
) -> None:
    """Repeat a request until there is a response, with the status 200 unless `any_status`."""
    for _ in range(10_000):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            if connection.getresponse().status == 200 or any_status:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.002)
    raise SystemExit("The service did not start.")


def post(requests: int, vocabulary: list[str], seed: int, model: str | None = None) -> None:
    """Post sentences for a model from several clients at the same time.

    A kept connection stays with one worker; new connections, one for each request, reach all.
    """

    def client(number: int) -> None:
        rng = random.Random(seed * _CLIENTS + number)  # noqa: S311 - no secret
        once = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}", limits=once, timeout=60) as http:
            for _ in range(requests // _CLIENTS):
                sentence = " ".join(rng.sample(vocabulary, 30))
                body = {"input": sentence, "model": model, "encoding": "base64"}
                http.post("/v1/encode", json=body).raise_for_status()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
