"""Workers share the connections that come: who has no thread free leaves them to the others."""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

from tests.http.sockets import LONGER, SHORT, connections_of, posted
from tests.http.versions import WAIT, ask, connection_to, service, until, workers_of

THREADS = 1


def asked(connection, body):
    """Send a request on a connection."""
    connection.sendall(posted(body))


def opened(stack, port):
    """A connection, with nothing sent on it yet."""
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT))


def answered(connection):
    """Read a whole answer."""
    answer = b""
    while b'"usage"' not in answer:
        piece = connection.recv(1 << 16)
        assert piece
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200")


def answered_by_any(port):
    """Wait until a worker that was stopped is awake."""
    with ExitStack() as stack:
        connection = opened(stack, port)
        asked(connection, SHORT)
        answered(connection)


def test_a_worker_without_a_free_thread_leaves_connections_to_the_others(tmp_path):
    with ExitStack() as stack:
        pid, port = stack.enter_context(service(tmp_path, workers=2, threads=THREADS))
        first, second = workers_of(pid)
        os.kill(second, signal.SIGSTOP)
        waiting = [opened(stack, port) for _ in range(THREADS)]
        for connection in waiting:
            asked(connection, LONGER)
        until(lambda: connections_of(first, port), THREADS)
        time.sleep(0.5)  # until their requests are in the threads
        os.kill(second, signal.SIGCONT)
        answered_by_any(port)
        more = [opened(stack, port) for _ in range(THREADS)]
        for connection in more:
            asked(connection, SHORT)
            answered(connection)
        assert connections_of(second, port) == THREADS
        for connection in waiting:
            answered(connection)
        # With threads free again, the first takes connections as before.
        os.kill(second, signal.SIGSTOP)
        again = opened(stack, port)
        asked(again, SHORT)
        answered(again)
        os.kill(second, signal.SIGCONT)


def test_threads_that_are_taken_by_kept_connections_count_as_well(tmp_path):
    with ExitStack() as stack:
        pid, port = stack.enter_context(service(tmp_path, workers=2, threads=THREADS))
        first, second = workers_of(pid)
        os.kill(second, signal.SIGSTOP)
        kept = [opened(stack, port) for _ in range(THREADS)]
        for connection in kept:
            asked(connection, SHORT)
            answered(connection)
        for connection in kept:
            asked(connection, LONGER)
        time.sleep(0.5)  # until their requests are in the threads
        os.kill(second, signal.SIGCONT)
        answered_by_any(port)
        more = [opened(stack, port) for _ in range(THREADS)]
        for connection in more:
            asked(connection, SHORT)
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
