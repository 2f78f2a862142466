"""Gunicorn's threaded worker with a loop of our own: clients that are slow cost no thread.

The loop receives whole requests and sends what a client does not read at once (`connection.py`);
threads do nothing but compute. What is too much is refused at once, and SIGHUP is upkeep.
"""

import errno
import queue
import select
import selectors
import signal
import sys
import threading
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from polyseme.http.draining import draining, release_endings
from polyseme.http.ledger import PATIENCE
from polyseme.http.traffic import Traffic
from polyseme.http.upkeep import refresh, settings_of
from polyseme.http.watching import settle

_SLOW = 0.1
"""Seconds without an answer after which all threads seem to wait."""
_SWEEP = 0.25
"""Seconds between two looks at the clock for every connection."""
_LEAVING = 2.0
"""Seconds that a worker which ends keeps a connection for the request that may be on its way."""
_NO_ROOM = 0.5
"""Seconds without new connections after the system had no room for one."""
_PATIENCE = 2
"""How many looks, a tenth of a second apart, find connections in the queue that others may take."""
_AT_ONCE = 64
"""Connections that are taken at once when no worker has taken any for a while."""
_IDLE = 1.0
"""Seconds without a byte of a request, after which a connection may be given up for another one."""
_BREATH = 1.0
"""Seconds before another worker is tried where one could not begin."""
_NOBODY = {errno.EAGAIN, errno.ECONNABORTED, errno.EINTR}


class Worker(ThreadWorker):  # type: ignore[misc]
    """A loop that owns the connections, and threads that answer."""

    # Those that gunicorn resets to their default action. That of SIGHUP is to die, and one may
    # come before its handler stands; until then the master's handler does, which is harmless.
    SIGNALS = tuple(one for one in ThreadWorker.SIGNALS if one != signal.SIGHUP)

    alive: bool
    """False from the signal to end on"""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.settings = settings_of(self.app.wsgi())
        self.traffic = Traffic(self, self.settings)
        self._swept_at = self._relieved_at = self._settled_at = 0.0
        self._no_room_until = 0.0
        self._passed_over = 0

    def init_process(self) -> None:
        """Begin, and answer until the end.

        Where a replacement cannot begin, for want of descriptors or memory, gunicorn would end the
        whole service: this process ends, and the master tries again.
        """
        try:
            super().init_process()
        except Exception:
            if self.booted or self.age <= self.cfg.workers:
                raise
            self.log.exception("a new worker could not begin; another one is tried")
            time.sleep(_BREATH)
            sys.exit(1)

    # Signals

    def init_signals(self) -> None:
        """Take SIGHUP as well; its handler may interrupt anything, so it only puts into a queue."""
        self._hangups: queue.SimpleQueue[int] = queue.SimpleQueue()
        signal.signal(signal.SIGHUP, lambda number, _frame: self._hangups.put(number))
        signal.siginterrupt(signal.SIGHUP, False)
        super().init_signals()
        release_endings()

    def _keep_models(self) -> None:
        """Refresh the models on each SIGHUP, and once before: one may have come with the fork."""
        while True:
            refresh(self.wsgi)
            self._hangups.get()
            while not self._hangups.empty():
                self._hangups.get()

    @property
    def stays(self) -> bool:
        """Whether connections may be kept."""
        return self.alive and not draining()

    def count_request(self) -> None:
        """Count a request; after enough of them this worker makes room for a new one."""
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("this worker has answered enough and makes room for a new one")
            self.alive = False

    # The loop

    def run(self) -> None:
        """Answer requests, and refresh the models beside that."""
        threading.Thread(target=self._keep_models, name="upkeep", daemon=True).start()
        queue_fd = self.method_queue.fileno()
        self.poller.register(queue_fd, selectors.EVENT_READ, self.method_queue.run_callbacks)
        while self.alive and self.is_parent_alive():
            self.set_accept_enabled(True)
            self._turn()
        self._leave()

    def _turn(self) -> None:
        """One turn of the loop."""
        self.notify()
        self.wait_for_and_dispatch_events(
            _SLOW if self.traffic.busy >= self.cfg.threads else _SWEEP
        )
        now = time.monotonic()
        if now - self._swept_at >= _SWEEP:
            self._swept_at = now
            self.traffic.sweep(now)
        if self.alive and now - self._relieved_at >= _SLOW:
            self._relieved_at = now
            self._relieve()
        if not self.traffic.busy or now - self._settled_at >= PATIENCE:
            self._settled_at = now
            settle(self)

    def _leave(self) -> None:
        """Take what has come, close the door, and finish what was begun."""
        self.alive = False  # it is the master's end that may have brought us here
        for listener in self.sockets:
            while len(self.traffic.connections) < self.settings.max_connections and self._take(
                listener
            ):
                pass
        self.set_accept_enabled(False)
        for listener in self.sockets:
            listener.close()
        left = time.monotonic()
        # Of the time to stop, draining takes a part; a worker that is replaced has all of it.
        end = left + (self.cfg if draining() else self.settings).graceful_timeout
        while self.traffic.connections and time.monotonic() < end:
            self._turn()
            for one in [one for one in self.traffic.connections if one.idle]:
                # Who has just been told that the connection is kept may ask on it.
                if time.monotonic() >= max(left, one.since) + _LEAVING:
                    self.traffic.drop(one)
        self.tpool.shutdown(wait=False, cancel_futures=True)

    # New connections

    @property
    def _willing(self) -> bool:
        """Whether to accept a connection: with a thread free, or while answers come one by one.

        Gunicorn's worker takes all that come, and of many that come at once the first to wake takes
        most and keeps them, while the others have nothing to do. A worker that is busy takes one
        after as many answers as it has threads, else connections that are kept would never let
        others in; but none while its threads are at long answers: another worker may be free.
        """
        threads: int = self.cfg.threads
        if not self._has_room:
            return False
        if self.traffic.busy < threads:
            return True
        return (
            self.traffic.finished >= threads and time.monotonic() - self.traffic.finished_at < _SLOW
        )

    @property
    def _has_room(self) -> bool:
        few = len(self.traffic.connections) < self.settings.max_connections
        return few and time.monotonic() >= self._no_room_until

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept connections while willing."""
        super().set_accept_enabled(enabled and self._willing)

    def accept(self, listener: Any) -> None:
        """Accept a connection, unless something has happened since the listener was asked for."""
        if self._willing:
            self.traffic.finished = 0
            self._take(listener)
        else:
            super().set_accept_enabled(False)

    def _relieve(self) -> None:
        """Take connections that no worker has taken for a while: to wait here, or be refused.

        In the system's queue nobody would tell them anything, however long it gets.
        """
        waiting = not self._willing and self._has_room and self._somebody_waits()
        self._passed_over = self._passed_over + 1 if waiting else 0
        if self._passed_over > _PATIENCE:
            for listener in self.sockets:
                for _ in range(_AT_ONCE):
                    if not self._has_room or not self._take(listener):
                        break

    def _somebody_waits(self) -> bool:
        poll = select.poll()
        for listener in self.sockets:
            poll.register(listener.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _take(self, listener: Any) -> bool:
        """Accept a connection; say whether there was one."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno not in _NOBODY:
                self._make_room(error)
            return False
        self.traffic.take(sock, client, listener.getsockname())
        return True

    def _make_room(self, error: OSError) -> None:
        """Wait a moment, and give up a connection that is idle: there are no descriptors left.

        The request of one that has come just now may be on its way.
        """
        self._no_room_until = time.monotonic() + _NO_ROOM
        super().set_accept_enabled(False)
        self.log.warning("no connection can be accepted: %s", errno.errorcode.get(error.errno or 0))
        before = time.monotonic() - _IDLE
        idle = [one for one in self.traffic.connections if one.idle and one.since < before]
        if idle:
            self.traffic.drop(min(idle, key=lambda one: one.since))
