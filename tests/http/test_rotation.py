"""Keys are replaced while clients ask with them, and no answer is lost."""

import os
import signal
import threading
from contextlib import contextmanager

from polyseme.api_keys import generate_key, key_file_line
from tests.http.versions import WAIT, connection_to, service, until

OLD, NEW = generate_key(), generate_key()


class Client(threading.Thread):
    """Asks without pause, with one key on one connection, and keeps the statuses."""

    def __init__(self, port, key):
        super().__init__()
        self.port, self.key = port, key
        self.stopping = threading.Event()
        self.statuses = []
        self.wrong = None

    def run(self):
        try:
            with connection_to(self.port) as connection:
                while not self.stopping.is_set():
                    headers = {"Authorization": f"Bearer {self.key}"}
                    connection.request("GET", "/v1/models/wiki-en", headers=headers)
                    answer = connection.getresponse()
                    answer.read()
                    self.statuses.append(answer.status)
        except Exception as error:  # noqa: BLE001 - it has to reach the test
            self.wrong = error


@contextmanager
def clients(port, *keys):
    asking = [Client(port, key) for key in keys]
    for one in asking:
        one.start()
    try:
        yield asking
    finally:
        for one in asking:
            one.stopping.set()
        for one in asking:
            one.join(WAIT)
    assert [one.wrong for one in asking if one.wrong] == []


def test_a_key_is_replaced_under_load_without_a_lost_answer(tmp_path):
    file = tmp_path / "keys"
    old, new = key_file_line("old", OLD), key_file_line("new", NEW)
    file.write_text(old)
    with service(tmp_path, api_keys_file=file) as (pid, port):
        # As many of each as there are workers or more, so that all workers have some of both.
        with clients(port, *[OLD] * 3, *[NEW] * 3) as asking:
            olds, news = asking[:3], asking[3:]
            until(lambda: all(one.statuses for one in asking), True)
            file.write_text(f"{old}\n{new}\n")
            os.kill(pid, signal.SIGHUP)
            until(lambda: all(one.statuses[-1] == 200 for one in news), True)
            assert all(set(one.statuses) == {200} for one in olds)
            file.write_text(new)
            os.kill(pid, signal.SIGHUP)
            until(lambda: all(one.statuses[-1] == 401 for one in olds), True)
            answered = {one: len(one.statuses) for one in asking}
            until(lambda: all(len(o.statuses) > n + 20 for o, n in answered.items()), True)
        # A worker changes all its keys at once: what has changed for a client never changes back.
        for one in olds:
            assert one.statuses == sorted(one.statuses)
            assert set(one.statuses) == {200, 401}
        for one in news:
            assert one.statuses == sorted(one.statuses, reverse=True)
            assert set(one.statuses) == {200, 401}
