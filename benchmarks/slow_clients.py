"""Run clients that send their requests in small pieces."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import create_connection
from urllib.parse import urlsplit

PIECES, PAUSE = 20, 0.1
"""The maximum number of pieces of a request, and the seconds after each."""
_TIMEOUT = 60


@contextmanager
def slow_clients(count: int, address: str, body: bytes) -> Iterator[list[bytes]]:
    """Post from `count` clients until the block ends; yield the status lines of the responses."""
    url, stop = urlsplit(address), threading.Event()
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, responses = head.encode("ascii") + body, []

    def client() -> None:
        while not stop.is_set():
            with suppress(OSError):
                responses.append(_post((url.hostname or "", url.port or 80), request, stop))

    threads = [threading.Thread(target=client) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield responses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _post(address: tuple[str, int], request: bytes, stop: threading.Event) -> bytes:
    """Send a request in pieces; return the status line of the response.

    Raises ConnectionAbortedError if `stop` is set while it sends.
    """
    step = -(-len(request) // PIECES)
    with create_connection(address, _TIMEOUT) as connection:
        for start in range(0, len(request), step):
            connection.sendall(request[start : start + step])
            if stop.wait(PAUSE):
                raise ConnectionAbortedError
        status = connection.makefile("rb").readline()
        while connection.recv(1 << 16):
            pass
    return status.strip()
