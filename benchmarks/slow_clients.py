"""Clients that send their requests a few bytes at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import create_connection
from urllib.parse import urlsplit

PIECES, PAUSE = 20, 0.1
"""A request comes in so many pieces, with so many seconds between them."""
_LONGEST = 60


@contextmanager
def slow_clients(count: int, address: str, body: bytes) -> Iterator[list[bytes]]:
    """Post from several clients until the block ends; yield the first lines of their answers."""
    place, stop = urlsplit(address), threading.Event()
    head = (
        f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, answered = head.encode("ascii") + body, []

    def client() -> None:
        while not stop.is_set():
            with suppress(OSError):
                answered.append(_post((place.hostname or "", place.port or 80), request, stop))

    threads = [threading.Thread(target=client) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _post(place: tuple[str, int], request: bytes, stop: threading.Event) -> bytes:
    """Send a request in pieces; return the first line of the answer."""
    step = -(-len(request) // PIECES)
    with create_connection(place, _LONGEST) as connection:
        for start in range(0, len(request), step):
            connection.sendall(request[start : start + step])
            if stop.wait(PAUSE):
                raise ConnectionAbortedError
        answer = connection.makefile("rb").readline()
        while connection.recv(1 << 16):
            pass
    return answer.strip()
