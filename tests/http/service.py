"""A real service under test: its processes, raw connections, and clients under load."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple, Self

import h11
import httpx
import numpy as np
import orjson

from polyseme.models.reader import read_manifest
from tests.conftest import ROOT, start

WAIT = 60
SECRET = "s3cretqx"
"""A text of requests that no response repeats."""
Address = tuple[str, int]
SHORT = {"input": "Apple sold the river bank an apple."}
LARGE = {"input": ["the river bank is near the money bank and the boats lie there"] * 300}
"""A request whose response is larger than what sockets buffer."""
_TRUE = object()


def until(get: Callable[[], Any], wanted: Any = _TRUE, seconds: float = WAIT) -> None:
    """Wait until a call returns a certain value, by default any true one."""
    end = time.monotonic() + seconds
    while True:
        found = get()
        if found if wanted is _TRUE else found == wanted:
            return
        assert time.monotonic() < end, f"still {found!r} after {seconds} s"
        time.sleep(0.02)


class Service(NamedTuple):
    """A service for one test."""

    process: Popen[bytes]
    port: int
    log: Path
    number: int
    """number of workers"""

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def master(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        """The process ids of the workers, sorted."""
        with suppress(FileNotFoundError):
            children = Path(f"/proc/{self.master}/task/{self.master}/children").read_text()
            program = Path(f"/proc/{self.master}/exe").readlink()
            return sorted(pid for pid in map(int, children.split()) if runs(pid, program))
        return []

    def wait_for_workers(self, number: int = 2, but: set[int] = frozenset()) -> list[int]:
        """Wait until exactly `number` workers run, and none of `but`; return them."""
        until(lambda: len(self.workers()) == number and not set(self.workers()) & but)
        return self.workers()

    def signal(self, number: int) -> None:
        """Send a signal to the master."""
        os.kill(self.master, number)

    def reload(self) -> None:
        """Send SIGHUP and wait until every worker is a new one."""
        before = set(self.wait_for_workers(self.number))
        self.signal(signal.SIGHUP)
        self.wait_for_workers(self.number, but=before)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request on a connection of its own; return the status and the document."""
        response = httpx.request(
            method, f"{self.url}{path}", json=body, headers=headers, timeout=WAIT
        )
        return response.status_code, response.json()

    def every_worker(self, ask: Callable[[], Any]) -> list[Any]:
        """Send a request to each worker while the others are stopped; return the results."""
        results = []
        workers = self.wait_for_workers(self.number)
        for worker in workers:
            others = set(workers) - {worker}
            for other in others:
                os.kill(other, signal.SIGSTOP)
            try:
                results.append(ask())
            finally:
                for other in others:
                    os.kill(other, signal.SIGCONT)
        return results


def runs(pid: int, program: Path) -> bool:
    """Whether a process runs a program and has not ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink() == program
    except OSError:
        return False


@contextmanager
def running(folder: Path, command: Any = None, **settings: object) -> Iterator[Service]:
    """Start a service; stop it at the end."""
    log = folder / "log"
    process, url = start(log, *([command] if command else []), **settings)
    # The process of the port for probes and metrics counts as a worker here.
    number = int(str(settings.get("workers", 2))) + ("admin_port" in settings)
    service = Service(process, int(url.rpartition(":")[2]), log, number)
    try:
        service.wait_for_workers(number)
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(WAIT)
        finally:
            process.kill()


def memory(pid: int, *names: str) -> int:
    """The sum of fields of /proc/PID/smaps_rollup, in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    fields = dict(line.split(":") for line in lines)
    return sum(int(fields[name].split()[0]) * 1024 for name in names)


def peak(pid: int) -> int:
    """The peak resident memory of a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def private_bytes(pid: int) -> int:
    """The memory that a process shares with no other."""
    return memory(pid, "Private_Clean", "Private_Dirty")


def descriptors(pid: int) -> int:
    """The number of open files and sockets of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def client_ports(service: Service, pid: int) -> set[int]:
    """The ports of the clients whose connections a worker has."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(link.readlink()))
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _state, *rest = line.split()
        if int(local.partition(":")[2], 16) == service.port and f"socket:[{rest[5]}]" in inodes:
            ports.add(int(remote.partition(":")[2], 16))
    return ports - {0}


def posted(body: Any, path: str = "/v1/encode", extra: str = "") -> bytes:
    """The bytes of a POST request."""
    content = orjson.dumps(body)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n{extra}\r\n"
    )
    return head.encode() + content


def inventory_document(word: str = "bank") -> dict[str, Any]:
    """An inventory of two senses for the bundled model."""
    manifest = read_manifest(ROOT / "models" / "wiki-en")
    senses = [
        {"label": f"{at}", "size": 1, "keywords": [], "threshold": 0.1, "centroid": centroid}
        for at, centroid in enumerate(np.eye(2, 200).tolist())
    ]
    found = {"model": manifest.name, "checksum": manifest.checksum, "word": word, "senses": senses}
    rest = {"several": 0.5, "separation": 0.1, "forms": [], "case": "any", "phrases": False}
    return {"format": "polyseme-senses", "version": 1, **found, **rest}


def get(path: str, extra: str = "") -> bytes:
    """The bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode()


def raw(address: tuple[str, int], sent: bytes) -> bytes:
    """Send bytes, end the sending side, and read until the service closes."""
    received = b""
    with socket.create_connection(address, 30) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 16):
                received += chunk
    return received


class Response(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


def next_response(
    http: h11.Connection, receive: Callable[[], bytes], method: str = "GET"
) -> Response:
    """Read the next response to a request with a method."""
    if http.our_state is h11.DONE:
        http.start_next_cycle()
    http.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    http.send(h11.EndOfMessage())
    head, body = None, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(receive())
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            headers = {name.decode(): value.decode("ascii") for name, value in head.headers}
            assert len(headers) == len(head.headers), f"repeated headers: {head.headers}"
            return Response(head.status_code, headers, bytes(body))
        elif not isinstance(event, h11.InformationalResponse):
            raise ConnectionError(f"The service ended the connection: {event}")


def responses_in(received: bytes, method: str = "GET") -> list[Response]:
    """Every response in the bytes of a connection."""
    responses = []
    while received:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 17)
        responses.append(next_response(http, iter([received, b""]).__next__, method))
        received = http.trailing_data[0]
    return responses


class Caller:
    """A client on one connection; h11 reads its responses."""

    def __init__(self, service: "Service | Address") -> None:
        address = service.address if isinstance(service, Service) else service
        self.socket = socket.create_connection(address, WAIT)
        self._http = h11.Connection(h11.CLIENT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, data: bytes) -> Response:
        """Send a request and read its response."""
        self.send(data)
        return self.response()

    def hold_thread(self) -> None:
        """Send a request whose response blocks a thread of a worker until `response` is called."""
        self.send(posted(LARGE))
        self.socket.recv(1, socket.MSG_PEEK)

    def response(self) -> Response:
        """The next response."""
        return next_response(self._http, lambda: self.socket.recv(1 << 18))

    @property
    def closed(self) -> bool:
        """Whether the service has ended the connection; waits until it does."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


class Load:
    """Clients that send requests one by one; the first `kept` of them use keep-alive connections.

    The others open a new connection for each request.
    """

    def __init__(self, service: Service, kept: int, clients: int) -> None:
        self.service, self.kept = service, kept
        self.stopping = threading.Event()
        self.counts = [0] * clients
        self.accepted = set(range(clients))
        """the clients whose connections the service has always accepted"""
        self.bodies: set[bytes] = set()
        self.lost: list[tuple[int, str]] = []
        """the client's port and the reason, for each request without its response"""

    @property
    def answered(self) -> int:
        return sum(self.counts)

    def go_on(self, number: int = 50) -> None:
        """Wait for a number of further responses."""
        before = self.answered
        until(lambda: self.answered >= before + number)

    def run(self, client: int) -> None:
        """Send the requests of a client."""
        while not self.stopping.is_set():
            try:
                caller = Caller(self.service)
            except ConnectionError:
                self.accepted.discard(client)
                self.stopping.wait(0.01)
                continue
            with caller:
                port = caller.socket.getsockname()[1]
                try:
                    self.use(caller, client)
                except (OSError, h11.RemoteProtocolError) as error:
                    self.lost.append((port, repr(error)))

    def use(self, caller: Caller, client: int) -> None:
        """Send requests until the connection or the test ends."""
        while not self.stopping.is_set():
            status, headers, body = caller.ask(posted(SHORT))
            self.counts[client] += 1
            self.bodies.add(body if status == 200 else str(status).encode())
            if client >= self.kept or headers.get("connection") == "close":
                return


@contextmanager
def load(service: Service, kept: int = 6, new: int = 3) -> Iterator[Load]:
    """Send requests from several clients while the block runs; check that all bodies are equal."""
    clients = Load(service, kept, kept + new)
    with ThreadPoolExecutor(kept + new) as pool:
        ended = pool.map(clients.run, range(kept + new))
        try:
            yield clients
        finally:
            clients.stopping.set()
        list(ended)  # raises what a client raised
    assert len(clients.bodies) == 1
