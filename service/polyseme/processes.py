"""Worker processes of a command."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MAX_DEATHS = 3
"""The work fails when so many workers have died of the same item."""


def run_in_processes(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    on_result: Callable[[_Item, _Result], None],
    *,
    workers: int,
    start: Callable[[], None] | None = None,
) -> None:
    """Call a function with each item in processes, and `on_result` with each item and its result.

    At most one item is read before a worker is free for it. Each worker calls `start` first. One
    that dies is replaced, and its item is repeated. Raises the first error of the function, and
    BrokenProcessPool if workers die repeatedly of one item; the workers are then terminated.
    """
    # Not the standard library's pool: a KeyboardInterrupt in this thread, while it has a lock of
    # the pool, would let the pool's threads wait for it forever.
    remaining, tasks = iter(items), deque[tuple[_Item, int]]()
    busy: dict[Any, tuple[_Item, int]] = {}
    worker: Any
    with _pool(function, start) as start_worker:
        idle = [start_worker() for _ in range(workers)]
        while True:
            if not tasks:
                tasks.extend((item, 0) for item in islice(remaining, 1))
            if tasks and idle:
                worker = idle.pop()
                busy[worker] = tasks.popleft()
                with suppress(OSError):  # the worker has died
                    worker.send(busy[worker][0])
                continue
            if not busy:
                return
            for worker in wait(busy):
                item, deaths = busy.pop(worker)
                try:
                    result, error = worker.recv()
                except (EOFError, OSError):
                    if deaths + 1 == _MAX_DEATHS:
                        raise BrokenProcessPool from None
                    tasks.appendleft((item, deaths + 1))
                    idle.append(start_worker())
                    continue
                if error:
                    raise error
                idle.append(worker)
                on_result(item, result)


@contextmanager
def _pool(*functions: Any) -> Iterator[Callable[[], Any]]:
    """Yield a function that starts a worker and returns the connection to it.

    The workers end with the block, at once if it fails.
    """
    context = get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}

    def start() -> Connection:
        connection, of_worker = context.Pipe()
        process = context.Process(target=_work, args=(of_worker, *functions), daemon=True)
        resource_tracker.ensure_running()  # its start unblocks the signals
        # The process inherits the blocked signals, so that only this process handles them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        of_worker.close()
        processes[connection] = process
        return connection

    try:
        yield start
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for connection, process in processes.items():
            connection.close()
            process.join()


def _work(connection: Connection, function: Any, start: Callable[[], None] | None) -> None:
    """Answer each item with the result of the function, or with its error."""
    _exit_with_parent()
    if start:
        start()
    with suppress(EOFError, OSError):  # the command has ended
        while True:
            item, result, error = connection.recv(), None, None
            try:
                result = function(item)
            except Exception as raised:  # noqa: BLE001 - the command raises it
                raised.add_note(format_exc())
                error = raised
            connection.send((result, error))


def _exit_with_parent() -> None:
    """End this child process when its parent ends, also if that is killed."""
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
