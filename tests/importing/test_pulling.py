"""`polyseme models pull` from a local mirror of gensim-data."""

import gzip
import hashlib
import json
import os
import signal
import sys
from collections import Counter

import pytest
from gensim import downloader

from polyseme.models.reader import read_model
from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import free_port
from tests.importing import files
from tests.importing.comparison import assert_same
from tests.importing.conftest import run
from tests.signals import handler_of

NAME = "glove-tiny-3"
LICENCE = "https://opendatacommons.org/licenses/pddl/"
INDEX, CODE, DATA = "/list.json", f"/{NAME}/__init__.py", f"/{NAME}/{NAME}.gz"


class Mirror:
    """Files by path, and the number of requests for each path."""

    def __init__(self):
        self.address = ""
        self.files = {}
        self.cut = set()
        """paths whose responses end midway"""
        self.endless = set()
        """paths whose responses do not end, and are interrupted"""
        self.requests = Counter()

    def put(self, name=NAME, kind="models", **changes):
        """Serve the table under a name as gensim-data does, with its index entry."""
        packed = gzip.compress(files.text(), mtime=0)
        entry = {
            "file_size": len(packed),
            "license": LICENCE,
            "file_name": f"{name}.gz",
            "parts": 1,
            "checksum": hashlib.md5(packed).hexdigest(),
            **changes,
        }
        self.files[f"/{name}/{name}.gz"] = packed
        self.files[f"/{name}/__init__.py"] = b"raise SystemExit('the code of the data was run')\n"
        index = json.loads(self.files.get(INDEX, b'{"corpora": {}, "models": {}}'))
        index[kind][name] = {key: value for key, value in entry.items() if value is not None}
        self.files[INDEX] = json.dumps(index).encode()

    def put_parts(self, count=2):
        """Serve the table in several parts, each with a checksum of its own."""
        packed = self.files.pop(DATA)
        size = -(-len(packed) // count)
        parts = [packed[start : start + size] for start in range(0, len(packed), size)]
        sums = {f"checksum-{n}": hashlib.md5(part).hexdigest() for n, part in enumerate(parts)}
        self.put(parts=count, checksum=None, **sums)
        del self.files[DATA]
        self.files |= {f"{DATA}_0{n}": part for n, part in enumerate(parts)}

    def __call__(self, request):
        """Respond to a request."""
        self.requests[request.path] += 1
        content = self.files.get(request.path)
        if content is None:
            return ScriptedResponse(404)
        if endless := request.path in self.endless:
            os.kill(os.getpid(), signal.SIGINT)
        return ScriptedResponse(body=content, cut=request.path in self.cut, endless=endless)


@pytest.fixture
def mirror():
    """A local mirror of gensim-data, which has the table."""
    mirror = Mirror()
    mirror.put()
    with scripted_server(mirror) as server:
        mirror.address = server.url
        yield mirror


@pytest.fixture
def puller(tmp_path, monkeypatch, mirror):
    """A Puller for one test."""
    return Puller(tmp_path, monkeypatch, mirror)


class Puller:
    """Runs the command; models and gensim's data have a folder each."""

    def __init__(self, folder, patch, mirror):
        self.models, self.data = folder / "models", folder / "data"
        self.patch, self.mirror = patch, mirror
        self.set(BASE_DIR=str(self.data))
        patch.setenv("no_proxy", "*")

    def set(self, **changes):
        """Set variables of gensim's downloader."""
        for name, value in changes.items():
            self.patch.setattr(downloader, name, value)

    def run(self, *arguments, name=NAME, mirror=None, **variables):
        address = self.mirror.address if mirror is None else mirror
        options = ("--mirror", address, *arguments) if address else arguments
        return run("models", "pull", name, *options, "--models-dir", self.models, **variables)

    def pull(self, *arguments, **options):
        """Pull the table; return the model."""
        done = self.run(*arguments, **options)
        assert done.code == 0, done.err
        model = read_model(self.models / NAME)
        assert_same(model, files.WORDS, files.VECTORS)
        return model

    def refusal(self, *arguments, **options):
        """The one sentence of a failure, which leaves only the index that gensim caches."""
        done = self.run(*arguments, **options)
        assert (done.code, done.out) == (1, ""), done.err
        (line,) = done.err.splitlines()
        assert not self.models.exists() or not any(self.models.iterdir())
        assert {path.name for path in self.data.rglob("*")} <= {"information.json"}
        return line.removeprefix("polyseme: ")


def test_vectors_are_downloaded_once_and_imported(mirror, puller):
    manifest = puller.pull("--no-weights").manifest
    assert (manifest.licence, manifest.source) == (LICENCE, f"gensim-data {NAME}")
    assert manifest.training["file"]["format"] == "word2vec-text"
    assert (puller.data / NAME / f"{NAME}.gz").read_bytes() == mirror.files[DATA]
    assert mirror.requests == {INDEX: 1, CODE: 1, DATA: 1}
    puller.pull("--replace")
    assert mirror.requests == {INDEX: 2, CODE: 1, DATA: 1}
    mirror.files.clear()  # as without a network
    puller.pull("--replace")
    mirror.requests.clear()
    done = puller.run()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("polyseme: A model of this name already exists; --replace ")
    assert not mirror.requests


def test_downloaded_code_is_never_run(mirror, puller, tmp_path):
    mark = tmp_path / "was-run"
    mirror.files[CODE] = f"open({str(mark)!r}, 'w').close()\n".encode()
    puller.pull()
    assert (puller.data / NAME / "__init__.py").read_bytes() == mirror.files[CODE]
    assert not mark.exists()
    assert NAME not in sys.modules
    assert str(puller.data) not in sys.path


def test_the_parts_of_a_download_are_joined(mirror, puller):
    mirror.put_parts(3)
    puller.pull()
    assert all(mirror.requests[f"{DATA}_0{part}"] == 1 for part in range(3))


def test_the_address_is_that_of_gensim_or_of_a_variable(mirror, puller):
    puller.pull(mirror="", POLYSEME_MIRROR=mirror.address)
    puller.set(DATA_LIST_URL=f"{mirror.address}{INDEX}", DOWNLOAD_BASE_URL=mirror.address)
    puller.pull("--replace", mirror="")
    assert mirror.requests[INDEX] == 2


@pytest.mark.parametrize("licence", [None, 7, "two\nlines", "\ud800"], ids=repr)
def test_an_invalid_licence_is_unknown(mirror, puller, licence):
    mirror.put(license=licence)
    assert puller.pull().manifest.licence == "unknown"


def test_an_interrupted_download_leaves_nothing(mirror, puller):
    """The server interrupts this process, and never ends its response."""
    mirror.endless.add(DATA)
    with handler_of(signal.SIGINT, signal.default_int_handler):
        done = puller.run()
    assert (done.code, done.out, mirror.requests[DATA]) == (1, "", 1)
    assert done.err.splitlines()[-1] == "Aborted!"
    assert not puller.models.exists()
    assert [path.name for path in puller.data.iterdir()] == ["information.json"]


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
CHECKSUM = "The downloaded file does not have the checksum of the index; try again."
ABSENT = (
    "The server responds with 404 to the request for the file; try again later; --mirror names"
    " another server."
)
NESTED = b"[" * 100_000 + b"]" * 100_000


def wrong_part(mirror):
    mirror.put_parts()
    mirror.files[f"{DATA}_01"] += b"\0"


def cut(path):
    return lambda mirror: mirror.cut.add(path)


def index(content):
    return lambda mirror: mirror.files.update({INDEX: content})


def entry(**changes):
    return lambda mirror: mirror.put(**changes)


FAILURES = {
    "wrong checksum": (entry(checksum="0" * 32), CHECKSUM),
    "wrong checksum of a part": (wrong_part, CHECKSUM),
    "no file": (lambda mirror: mirror.files.pop(DATA), ABSENT),
    "cut download": (cut(DATA), CUT),
    "cut code": (cut(CODE), CUT),
    "cut index": (cut(INDEX), CUT),
    "index that is not JSON": (index(b"<!doctype html><title>Welcome</title>"), NO_INDEX),
    "index of names alone": (index(b'{"corpora": {}, "models": ["%b"]}' % NAME.encode()), NO_INDEX),
    "index nested without end": (index(NESTED), NO_INDEX),
    "file elsewhere": (entry(file_name="../../x"), NO_INDEX),
    "no file named": (entry(file_name=None), NO_INDEX),
    "no checksum": (entry(checksum=None), NO_INDEX),
    "parts in words": (entry(parts="two"), NO_INDEX),
    "no parts": (entry(parts=None), NO_INDEX),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_reported_in_one_sentence_and_leaves_nothing(mirror, puller, case):
    prepare, sentence = FAILURES[case]
    prepare(mirror)
    assert puller.refusal() == sentence


def test_a_failed_download_is_repeated(mirror, puller):
    mirror.cut.add(DATA)
    puller.refusal()
    mirror.cut.clear()
    puller.pull()


def test_an_unknown_name_is_rejected_with_the_known_ones(mirror, puller):
    assert puller.refusal(name="bad").endswith(f"it has {NAME}.")
    for name in ("word2vec-x", "__testing", "bad\x1b[31mname", "../up"):
        mirror.put(name)
    sentence = f"gensim-data has no such vectors; it has {NAME}, word2vec-x."
    assert puller.refusal(name="glove-z") == sentence
    assert puller.refusal("--name", "up", name="../up") == sentence
    del mirror.files[INDEX]
    mirror.put("text8", kind="corpora")
    sentence = "gensim-data has a corpus of this name, not vectors."
    assert puller.refusal(name="text8") == sentence
    assert puller.refusal() == "gensim-data has no such vectors; it has none."
    assert set(mirror.requests) == {INDEX}


def test_a_file_name_that_differs_from_the_index_is_reported(mirror, puller):
    puller.pull()
    mirror.put(file_name="other.gz")
    done = puller.run("--replace")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "polyseme: The folder of this name in gensim's data folder lacks the file named in the"
        " index; remove the folder and try again.\n"
    )


def test_a_missing_network_is_reported_with_a_hint(mirror, puller, monkeypatch):
    """The proxy of gensim's own address is a closed port."""
    nobody = f"http://127.0.0.1:{free_port()}"
    with monkeypatch.context() as patch:
        patch.delenv("no_proxy")
        for name in ("http_proxy", "https_proxy"):
            patch.setenv(name, nobody)
        assert puller.refusal(mirror="") == OFFLINE
    # The index can be downloaded, but the files are at an unreachable address.
    puller.set(DATA_LIST_URL=f"{mirror.address}{INDEX}", DOWNLOAD_BASE_URL=nobody)
    assert puller.refusal(mirror="") == OFFLINE
    mirror.files[INDEX] = b"<!doctype html>"
    assert puller.refusal() == NO_INDEX
    mirror.files.clear()
    assert puller.refusal() == ABSENT  # an invalid index does not replace the cached one


@pytest.mark.parametrize("address", ["gensim-data", "file:///etc", "http://127.0.0.1:port"])
def test_an_invalid_address_of_a_mirror_is_rejected(puller, address):
    sentence = "The mirror must be a URL that begins with https:// or http://."
    assert puller.refusal(mirror=address) == sentence
    assert not puller.data.exists()


def test_a_data_folder_that_cannot_be_created_is_reported(puller, tmp_path):
    (tmp_path / "file").touch()
    puller.set(BASE_DIR=str(tmp_path / "file"))
    assert puller.refusal() == (
        "gensim's data folder cannot be created; set GENSIM_DATA_DIR to another one."
    )
