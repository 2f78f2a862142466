"""Workers share the connections that come: who has no thread free leaves them to the others."""

import os
import signal
import threading
import time
from contextlib import ExitStack

from tests.http.sockets import SHORT, TRACE, TRACES, Caller, connections_of, posted
from tests.http.versions import ask, connection_to, service, workers_of


def keep_busy(caller):
    """Take a thread for some seconds."""
    caller.send(posted(TRACE, path="/v1/trace"))
    time.sleep(0.5)  # until the request is in the thread


def test_a_worker_without_a_free_thread_leaves_connections_to_the_others(tmp_path):
    shares = []
    while (1, 6) not in shares and len(shares) < 4:
        with ExitStack() as stack:
            pid, port = stack.enter_context(service(tmp_path, workers=2, threads=1, **TRACES))
            first, second = workers_of(pid)
            os.kill(second, signal.SIGSTOP)
            busy = stack.enter_context(Caller(port))
            keep_busy(busy)
            os.kill(second, signal.SIGCONT)
            others = [stack.enter_context(Caller(port)) for _ in range(6)]
            for caller in others:
                assert caller.ask(posted(SHORT))[0] == 200
            shares.append((connections_of(first, port), connections_of(second, port)))
            assert busy.answer()[0] == 200
            # With a thread free again, the first takes connections as before.
            os.kill(second, signal.SIGSTOP)
            again = stack.enter_context(Caller(port))
            assert again.ask(posted(SHORT))[0] == 200
            os.kill(second, signal.SIGCONT)
    assert (1, 6) in shares


def test_a_thread_that_is_taken_by_a_kept_connection_counts_as_well(tmp_path):
    shares = []
    # On a machine that is busy, the other worker may sleep so long that the first one helps out.
    while (1, 3) not in shares and len(shares) < 20:
        with ExitStack() as stack:
            pid, port = stack.enter_context(service(tmp_path, workers=2, threads=1, **TRACES))
            first, second = workers_of(pid)
            os.kill(second, signal.SIGSTOP)
            kept = stack.enter_context(Caller(port))
            assert kept.ask(posted(SHORT))[0] == 200
            keep_busy(kept)
            os.kill(second, signal.SIGCONT)
            others = [stack.enter_context(Caller(port)) for _ in range(3)]
            for caller in others:
                assert caller.ask(posted(SHORT))[0] == 200
            shares.append((connections_of(first, port), connections_of(second, port)))
            assert kept.answer()[0] == 200
    assert (1, 3) in shares


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
