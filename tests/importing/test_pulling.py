"""`polyseme models pull` from a local mirror of gensim-data."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter

import pytest
from gensim import downloader

from polyseme.models.reader import read_model
from tests.cli.conftest import run_process
from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import PYTHONPATH, free_port
from tests.http.service import until
from tests.importing import files
from tests.importing.comparison import assert_same
from tests.importing.conftest import run
from tests.signals import default_handling

NAME = "glove-tiny-3"


class Mirror:
    """Files by path, and the number of requests for each path."""

    def __init__(self):
        self.address = ""
        self.files = {}
        self.cut = set()
        """paths whose responses end midway"""
        self.endless = set()
        """paths whose responses do not end"""
        self.requests = Counter()

    def put(self, content, name=NAME, kind="models", **changes):
        """Serve vectors under a name as gensim-data does, with their index entry."""
        packed = gzip.compress(content, mtime=0)
        entry = {
            "num_records": 4,
            "file_size": len(packed),
            "base_dataset": "by hand",
            "license": "https://opendatacommons.org/licenses/pddl/",
            "description": "Four words.",
            "file_name": f"{name}.gz",
            "parts": 1,
            "checksum": hashlib.md5(packed).hexdigest(),
            **changes,
        }
        self.files[f"/{name}/{name}.gz"] = packed
        self.files[f"/{name}/__init__.py"] = b"raise SystemExit('the code of the data was run')\n"
        index = json.loads(self.files.get("/list.json", b'{"corpora": {}, "models": {}}'))
        index[kind][name] = {key: value for key, value in entry.items() if value is not None}
        self.files["/list.json"] = json.dumps(index).encode()
        return packed

    def put_parts(self, content, name=NAME, count=2):
        """Serve vectors in several parts, each with a checksum of its own."""
        packed = self.put(content, name)
        size = -(-len(packed) // count)
        parts = [packed[at : at + size] for at in range(0, len(packed), size)]
        sums = {f"checksum-{n}": hashlib.md5(part).hexdigest() for n, part in enumerate(parts)}
        self.put(content, name, parts=count, checksum=None, **sums)
        del self.files[f"/{name}/{name}.gz"]
        self.files |= {f"/{name}/{name}.gz_0{n}": part for n, part in enumerate(parts)}

    def __call__(self, request):
        """Respond to a request."""
        self.requests[request.path] += 1
        content = self.files.get(request.path)
        if content is None:
            return ScriptedResponse(404)
        endless = request.path in self.endless
        return ScriptedResponse(body=content, cut=request.path in self.cut, endless=endless)


@pytest.fixture
def mirror():
    """A local mirror of gensim-data."""
    mirror = Mirror()
    with scripted_server(mirror) as server:
        mirror.address = server.url
        yield mirror


@pytest.fixture
def puller(tmp_path, monkeypatch):
    """A Puller for one test."""
    return Puller(tmp_path, monkeypatch)


class Puller:
    """Runs the command; models, gensim's data and scratch files go below one place."""

    def __init__(self, place, patch):
        self.models, self.data, self.scratch = (place / n for n in ("models", "data", "scratch"))
        self.scratch.mkdir()
        patch.setattr(downloader, "BASE_DIR", str(self.data))
        patch.setattr(tempfile, "tempdir", None)
        patch.setenv("TMPDIR", str(self.scratch))
        patch.setenv("no_proxy", "*")

    def pull(self, *arguments, mirror=None):
        place = [] if mirror is None else ["--mirror", mirror.address]
        return run("models", "pull", *arguments, *place, "--models-dir", self.models)

    def refusal(self, *arguments, mirror=None):
        """The one sentence of a failure, which leaves only the index that gensim caches."""
        done = self.pull(*arguments, mirror=mirror)
        assert (done.code, done.out) == (1, ""), done.err
        (line,) = done.err.splitlines()
        assert not self.models.exists() or not any(self.models.iterdir())
        assert not any(self.scratch.iterdir())
        left = {path.name for path in self.data.rglob("*")}
        assert left == {"information.json"} or not self.data.exists()
        return line.removeprefix("polyseme: ")


LICENCE = "https://opendatacommons.org/licenses/pddl/"
DATA = f"/{NAME}/{NAME}.gz"


def assert_is_the_table(model):
    assert_same(model, files.WORDS, files.VECTORS)


def test_a_name_is_downloaded_and_imported_by_one_command(mirror, tmp_path):
    """The command runs in its own process, with gensim's variable for its data folder."""
    mirror.put(files.text())
    models, data, scratch = (tmp_path / name for name in ("models", "data", "scratch"))
    scratch.mkdir()
    done = run_process(
        *("models", "pull", NAME, "--mirror", mirror.address, "--no-weights"),
        models_dir=models,
        GENSIM_DATA_DIR=str(data),
        TMPDIR=str(scratch),
        no_proxy="*",
    )
    assert (done.returncode, done.stdout.decode().split()[0]) == (0, NAME), done.stderr
    model = read_model(models / NAME)
    assert_is_the_table(model)
    assert (model.manifest.licence, model.manifest.source) == (LICENCE, f"gensim-data {NAME}")
    assert model.manifest.training["file"]["format"] == "word2vec-text"
    assert (data / NAME / f"{NAME}.gz").read_bytes() == mirror.files[DATA]
    assert not any(scratch.iterdir())


def test_a_download_is_cached(mirror, puller):
    mirror.put(files.text())
    assert puller.pull(NAME, mirror=mirror).code == 0
    assert mirror.requests == {"/list.json": 1, f"/{NAME}/__init__.py": 1, DATA: 1}
    first = (puller.models / NAME / "manifest.json").read_bytes()
    assert puller.pull(NAME, "--replace", mirror=mirror).code == 0
    assert mirror.requests == {"/list.json": 2, f"/{NAME}/__init__.py": 1, DATA: 1}
    mirror.files.clear()  # as without a network
    assert puller.pull(NAME, "--replace", mirror=mirror).code == 0
    assert (puller.models / NAME / "manifest.json").read_bytes() == first


def test_downloaded_code_is_never_run(mirror, puller, tmp_path):
    mark = tmp_path / "was-run"
    mirror.put(files.text())
    mirror.files[f"/{NAME}/__init__.py"] = f"open({str(mark)!r}, 'w').close()\n".encode()
    assert puller.pull(NAME, mirror=mirror).code == 0
    assert (puller.data / NAME / "__init__.py").read_bytes().startswith(b"open(")
    assert not mark.exists()
    assert NAME not in sys.modules
    assert str(puller.data) not in sys.path


def test_the_parts_of_a_download_are_joined(mirror, puller):
    mirror.put_parts(files.text(), count=3)
    assert puller.pull(NAME, mirror=mirror).code == 0
    assert_is_the_table(read_model(puller.models / NAME))
    assert all(mirror.requests[f"{DATA}_0{part}"] == 1 for part in range(3))


def test_gensims_own_addresses_are_used_without_a_mirror(mirror, puller, monkeypatch):
    mirror.put(files.text())
    monkeypatch.setattr(downloader, "DATA_LIST_URL", f"{mirror.address}/list.json")
    monkeypatch.setattr(downloader, "DOWNLOAD_BASE_URL", mirror.address)
    assert puller.pull(NAME).code == 0
    assert_is_the_table(read_model(puller.models / NAME))


def test_gensims_downloader_is_restored(mirror, puller):
    names = ("_load_info", "_progress", "DATA_LIST_URL", "DOWNLOAD_BASE_URL")
    before = [getattr(downloader, name) for name in names]
    mirror.put(files.text())
    for code in (0, 1):
        assert puller.pull(NAME, mirror=mirror).code == code
    assert [getattr(downloader, name) for name in names] == before
    assert not downloader.logger.disabled
    assert tempfile.tempdir is None or tempfile.tempdir == str(puller.scratch)


@pytest.mark.parametrize("licence", [None, 7, ["a"], "two\nlines", "\ud800"], ids=repr)
def test_an_invalid_licence_is_unknown(mirror, puller, licence):
    mirror.put(files.text(), license=licence)
    assert puller.pull(NAME, mirror=mirror).code == 0
    assert read_model(puller.models / NAME).manifest.licence == "unknown"


def test_a_variable_sets_the_mirror(mirror, puller, monkeypatch):
    mirror.put(files.text())
    monkeypatch.setenv("POLYSEME_MIRROR", mirror.address)
    assert puller.pull(NAME).code == 0


@pytest.mark.slow
def test_an_interrupted_download_leaves_nothing(mirror, tmp_path):
    """Interrupt a download from a server that never ends its response."""
    mirror.put(files.text())
    mirror.endless.add(DATA)
    models, data, scratch = (tmp_path / name for name in ("models", "data", "scratch"))
    scratch.mkdir()
    places = {"GENSIM_DATA_DIR": str(data), "TMPDIR": str(scratch), "no_proxy": "*"}
    command = [sys.executable, "-m", "polyseme", "models", "pull", NAME]
    with default_handling(signal.SIGINT):
        process = subprocess.Popen(
            [*command, "--mirror", mirror.address, "--models-dir", models],
            env={**os.environ, **places, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    until(lambda: mirror.requests[DATA] or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert (out, b"Traceback" in err) == (b"", False), err
    assert not models.exists()
    assert not any(scratch.iterdir())
    assert [path.name for path in data.iterdir()] == ["information.json"]


OFFLINE = (
    "gensim-data cannot be reached. On a machine with network access, run `polyseme models pull`"
    " and copy the model's folder, or download the file of vectors and run `polyseme models import`"
    " here; --mirror names another server."
)
NO_INDEX = (
    "The list.json of gensim-data, or of the mirror, is not an index of vectors; --mirror names"
    " another server."
)
CUT = "The download is incomplete; try again."


def wrong_part(mirror):
    mirror.put_parts(files.text())
    mirror.files[f"{DATA}_01"] += b"\0"


def no_second_part(mirror):
    mirror.put_parts(files.text())
    del mirror.files[f"{DATA}_01"]


def cut(path):
    return lambda mirror: mirror.cut.add(path)


def index(content):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda mirror: mirror.files.update({"/list.json": content})


def entry(**changes):
    return lambda mirror: mirror.put(files.text(), **changes)


CHECKSUM = "The downloaded file does not have the checksum of the index; try again."
ABSENT = (
    "The server responds with 404 to the request for the file; try again later; --mirror names"
    " another server."
)
NESTED = b"[" * 100_000 + b"]" * 100_000
FAILURES = {
    "wrong checksum": (entry(checksum="0" * 32), CHECKSUM),
    "wrong checksum of a part": (wrong_part, CHECKSUM),
    "no file": (lambda mirror: mirror.files.pop(DATA), ABSENT),
    "no second part": (no_second_part, ABSENT),
    "cut download": (cut(DATA), CUT),
    "cut code": (cut(f"/{NAME}/__init__.py"), CUT),
    "cut index": (cut("/list.json"), CUT),
    "index that is no JSON": (index(b"<!doctype html><title>Welcome</title>"), NO_INDEX),
    "index that is no text": (index(b"\xff\xfe\x00"), NO_INDEX),
    "index that is empty": (index(b""), NO_INDEX),
    "index that is a list": (index(b"[]"), NO_INDEX),
    "index without corpora": (index(b'{"models": {}}'), NO_INDEX),
    "index of names alone": (index({"corpora": {}, "models": [NAME]}), NO_INDEX),
    "index nested without end": (index(NESTED), NO_INDEX),
    "index of invalid entries": (index({"corpora": {}, "models": {NAME: "here"}}), NO_INDEX),
    "file elsewhere": (entry(file_name="../../x"), NO_INDEX),
    "file at the root": (entry(file_name="/etc/passwd"), NO_INDEX),
    "file that is a folder": (entry(file_name=".."), NO_INDEX),
    "file without a name": (entry(file_name=""), NO_INDEX),
    "no file named": (entry(file_name=None), NO_INDEX),
    "no checksum": (entry(checksum=None), NO_INDEX),
    "parts in words": (entry(parts="two"), NO_INDEX),
    "no parts": (entry(parts=None), NO_INDEX),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_reported_in_one_sentence_and_leaves_nothing(mirror, puller, case):
    prepare, sentence = FAILURES[case]
    mirror.put(files.text())
    prepare(mirror)
    assert puller.refusal(NAME, mirror=mirror) == sentence
    # Afterwards, the same command succeeds.
    mirror.cut.clear()
    mirror.files.clear()
    mirror.put(files.text())
    (puller.data / f"{NAME}_tmp").mkdir(parents=True)  # left by a killed download
    assert puller.pull(NAME, mirror=mirror).code == 0


def test_an_unknown_name_is_rejected_with_the_known_ones(mirror, puller):
    for name in ("word2vec-x", "glove-y", "__testing", "bad\x1b[31mname", "../up"):
        mirror.put(files.text(), name)
    sentence = "gensim-data has no such vectors; it has glove-y, word2vec-x."
    assert puller.refusal("glove-z", mirror=mirror) == sentence
    assert puller.refusal("../up", "--name", "up", mirror=mirror) == sentence


def test_a_corpus_is_rejected(mirror, puller):
    mirror.put(b"text", "text8", kind="corpora")
    sentence = "gensim-data has a corpus of this name, not vectors."
    assert puller.refusal("text8", mirror=mirror) == sentence
    assert set(mirror.requests) == {"/list.json"}
    assert puller.refusal(NAME, mirror=mirror) == "gensim-data has no such vectors; it has none."


def test_a_file_name_that_differs_from_the_index_is_reported(mirror, puller):
    mirror.put(files.text(), file_name="other.gz")
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "polyseme: The folder of this name in gensim's data folder lacks the file named in the"
        " index; remove the folder and try again.\n"
    )
    assert not puller.models.exists()


def test_a_missing_network_is_reported_with_a_hint(puller, monkeypatch, caplog):
    """The proxy of gensim's own address is a closed port. gensim logs nothing."""
    monkeypatch.delenv("no_proxy")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert puller.refusal(NAME) == OFFLINE
    assert downloader.__name__ not in {record.name for record in caplog.records}


def test_an_invalid_index_is_not_cached(mirror, puller):
    mirror.put(files.text())
    mirror.files["/list.json"] = b"<!doctype html>"
    assert puller.refusal(NAME, mirror=mirror) == NO_INDEX
    mirror.files.clear()
    assert puller.refusal(NAME, mirror=mirror) == OFFLINE


def test_a_download_that_cannot_begin_is_reported(mirror, puller, monkeypatch):
    """The index can be downloaded, but the files are at an unreachable address."""
    mirror.put(files.text())
    monkeypatch.setattr(downloader, "DATA_LIST_URL", f"{mirror.address}/list.json")
    monkeypatch.setattr(downloader, "DOWNLOAD_BASE_URL", f"http://127.0.0.1:{free_port()}")
    assert puller.refusal(NAME) == OFFLINE


@pytest.mark.parametrize(
    "address", ["gensim-data", "file:///etc", "ftp://127.0.0.1", "http://127.0.0.1:port"]
)
def test_an_invalid_address_of_a_mirror_is_rejected(puller, address):
    assert puller.refusal(NAME, "--mirror", address) == (
        "The mirror must be a URL that begins with https:// or http://."
    )


def test_a_data_folder_that_cannot_be_created_is_reported(mirror, puller, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(downloader, "BASE_DIR", str(tmp_path / "file"))
    mirror.put(files.text())
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "polyseme: gensim's data folder cannot be created; set GENSIM_DATA_DIR to another one.\n",
    )


def test_an_existing_model_is_not_downloaded_again(mirror, puller):
    mirror.put(files.text())
    assert puller.pull(NAME, mirror=mirror).code == 0
    mirror.requests.clear()
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("polyseme: A model of this name already exists; --replace ")
    assert not mirror.requests
