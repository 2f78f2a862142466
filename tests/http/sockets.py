"""Clients that are sockets: what they send, and when, is the test's to say."""

import socket
from pathlib import Path

import h11
import orjson

from tests.http.versions import WAIT

SHORT = {"input": "Apple sold the river bank an apple."}
_SENTENCE = "the river bank is near the money bank and the boats that lie there wait for the tide"
# Its tokens are counted before the answer begins, which takes a thread a second or so.
LONG = {"input": [_SENTENCE] * 7_000, "include": []}
# These are counted and written before anything of them is sent: a thread is theirs for seconds.
TRACE = {"tokens": ["a"] * 700, "embeddings": [[0.1] * 20] * 700}
TRACES = {"max_trace_tokens": 700, "max_trace_bytes": 1 << 30}
LONGER = {"input": [f"{_SENTENCE} {_SENTENCE} {_SENTENCE}"] * 9_000, "include": []}


def posted(body, path="/v1/encode", accept="application/json", extra=""):
    """The bytes of a request."""
    content = orjson.dumps(body)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"Accept: {accept}\r\nContent-Length: {len(content)}\r\n{extra}\r\n"
    )
    return head.encode() + content


class Caller:
    """A client on one connection, whose answers are read by h11."""

    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT)
        self.socket.connect(("127.0.0.1", port))
        self._read = h11.Connection(h11.CLIENT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, data):
        """Send a request, and give the status, the headers and the document of the answer."""
        self.send(data)
        return self.answer()

    def answer(self):
        """The next answer: status, headers and body."""
        if self._read.their_state is h11.DONE:
            self._read.start_next_cycle()
        if self._read.our_state is h11.IDLE:
            self._read.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
            self._read.send(h11.EndOfMessage())
        head, body = None, bytearray()
        while True:
            event = self._read.next_event()
            if event is h11.NEED_DATA:
                self._read.receive_data(self.socket.recv(1 << 16))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                headers = {name.decode(): value.decode() for name, value in head.headers}
                return head.status_code, headers, bytes(body)

    @property
    def closed(self):
        """Whether the service has ended the connection; waits until it does."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def connections_of(worker, port):
    """How many connections to the port a process has accepted."""
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    rows = [line.split() for line in lines]
    here = [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] != "0A"]
    sockets = {f"socket:[{row[9]}]" for row in here}
    return sum(_target(fd) in sockets for fd in Path(f"/proc/{worker}/fd").iterdir())


def _target(descriptor):
    """What a descriptor is of, if it was not closed meanwhile."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return None


def memory_of(worker):
    """The bytes of memory that a process shares with none."""
    lines = Path(f"/proc/{worker}/smaps_rollup").read_text().splitlines()
    fields = dict(line.split(":") for line in lines[1:])
    private = ("Private_Clean", "Private_Dirty")
    return sum(int(fields[name].split()[0]) * 1024 for name in private)
