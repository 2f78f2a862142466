"""Workers share the connections that come: who has no thread free leaves them to the others."""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import orjson

from tests.http.versions import WAIT, ask, connection_to, service, until, workers_of

BODY = orjson.dumps({"input": "a bank"})
HEAD = (
    b"POST /v1/encode HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
) % len(BODY)
THREADS = 3


def opened(stack, port):
    """A connection with a request on it that is not whole yet."""
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT))
    connection.sendall(HEAD + BODY[:5])
    return connection


def connections_of(worker, port):
    """How many connections to the port a process has accepted."""
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    rows = [line.split() for line in lines]
    established = [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"]
    sockets = {f"socket:[{row[9]}]" for row in established}
    return sum(str(fd.readlink()) in sockets for fd in Path(f"/proc/{worker}/fd").iterdir())


def answered(connection):
    """Send the rest of a request, and read the whole answer."""
    connection.sendall(BODY[5:])
    answer = b""
    while b"usage" not in answer:
        answer += connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_worker_without_a_free_thread_leaves_connections_to_the_others(tmp_path):
    with ExitStack() as stack:
        pid, port = stack.enter_context(service(tmp_path, workers=2, threads=THREADS))
        first, second = workers_of(pid)
        os.kill(second, signal.SIGSTOP)
        waiting = [opened(stack, port) for _ in range(THREADS)]
        until(lambda: connections_of(first, port), THREADS)
        more = [opened(stack, port) for _ in range(THREADS)]
        os.kill(second, signal.SIGCONT)
        for connection in more:
            connection.sendall(BODY[5:])
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert connections_of(second, port) == THREADS
        for connection in waiting:
            connection.sendall(BODY[5:])
            assert connection.recv(12) == b"HTTP/1.1 200"
        # With threads free again, the first takes connections as before.
        os.kill(second, signal.SIGSTOP)
        again = opened(stack, port)
        again.sendall(BODY[5:])
        assert again.recv(12) == b"HTTP/1.1 200"
        os.kill(second, signal.SIGCONT)


def test_threads_that_are_taken_by_kept_connections_count_as_well(tmp_path):
    with ExitStack() as stack:
        pid, port = stack.enter_context(service(tmp_path, workers=2, threads=THREADS))
        first, second = workers_of(pid)
        os.kill(second, signal.SIGSTOP)
        kept = [opened(stack, port) for _ in range(THREADS)]
        for connection in kept:
            answered(connection)
        for connection in kept:
            connection.sendall(HEAD + BODY[:5])
        until(lambda: connections_of(first, port), THREADS)
        time.sleep(0.5)  # until their requests are in the threads
        more = [opened(stack, port) for _ in range(THREADS)]
        os.kill(second, signal.SIGCONT)
        for connection in more:
            answered(connection)
        assert (connections_of(first, port), connections_of(second, port)) == (THREADS, THREADS)
        for connection in kept:
            answered(connection)


def test_connections_that_are_kept_busy_let_others_in(tmp_path):
    with service(tmp_path, workers=1, threads=1) as (_, port):
        asked = [0] * 8
        enough = threading.Event()

        def keep_asking(number):
            with connection_to(port) as connection:
                while not enough.is_set():
                    ask(connection, "GET", "/livez")
                    asked[number] += 1
                    if sum(asked) >= 800:
                        enough.set()

        clients = [threading.Thread(target=keep_asking, args=(n,)) for n in range(len(asked))]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert min(asked) > 20, asked
