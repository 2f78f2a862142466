"""`polyseme models pull` from a local mirror of gensim-data."""

import gzip
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from functools import partial
from threading import Timer

import pytest
from gensim import downloader

from polyseme.importing import ImportProblem
from polyseme.importing.download import download_vectors
from polyseme.models.reader import read_model
from polyseme.terminal import SILENT
from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import free_port, handler_of
from tests.importing import files
from tests.importing.conftest import assert_same, run

NAME = "glove-tiny-3"
LICENCE = "https://opendatacommons.org/licenses/pddl/"
INDEX, CODE, DATA = "/list.json", f"/{NAME}/__init__.py", f"/{NAME}/{NAME}.gz"


class Mirror:
    """Files by path, the number of requests for each, and gensim's data folder."""

    def __init__(self, folder):
        self.address, self.folder = "", folder
        self.files, self.requests = {}, Counter()
        self.cut, self.endless = set(), set()
        """paths whose response ends early or never"""
        self.put()

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

    def put_parts(self, count):
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
        path = request.path
        if path not in self.files:
            return ScriptedResponse(404)
        if path in self.endless:  # the interruption comes while the body is read
            Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        body, cut, endless = self.files[path], path in self.cut, path in self.endless
        return ScriptedResponse(body=body, cut=cut, endless=endless)

    def download(self, name=NAME):
        """Download vectors; return the content of the file and its facts."""
        path, facts = download_vectors(name, self.address, SILENT)
        return path.read_bytes(), facts

    def problem(self, name=NAME):
        """The sentence of a failure, which leaves only the cached index."""
        with pytest.raises(ImportProblem) as caught:
            self.download(name)
        assert {path.name for path in self.folder.rglob("*")} <= {"information.json"}
        return str(caught.value)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A local mirror of gensim-data, which has the table."""
    mirror = Mirror(tmp_path / "data")
    monkeypatch.setattr(downloader, "BASE_DIR", str(mirror.folder))
    monkeypatch.setenv("no_proxy", "*")
    with scripted_server(mirror) as server:
        mirror.address = server.url
        yield mirror


def test_vectors_are_downloaded_once_and_imported(mirror, tmp_path):
    command = ("models", "pull", NAME, "--models-dir", tmp_path / "models", "--no-weights")
    done = run(*command, POLYSEME_MIRROR=mirror.address)
    assert done.code == 0, done.err
    model = read_model(tmp_path / "models" / NAME)
    assert_same(model, files.WORDS, files.VECTORS)
    manifest = model.manifest
    assert (manifest.licence, manifest.source) == (LICENCE, f"gensim-data {NAME}")
    assert manifest.training["file"]["format"] == "word2vec-text"
    assert (mirror.folder / NAME / f"{NAME}.gz").read_bytes() == mirror.files[DATA]
    assert mirror.requests == {INDEX: 1, CODE: 1, DATA: 1}
    done = run(*command, "--mirror", mirror.address)
    assert done.err.startswith("polyseme: A model of this name already exists; --replace ")
    assert (done.code, mirror.requests[INDEX]) == (1, 1)
    assert run(*command, "--mirror", mirror.address, "--replace").code == 0
    assert mirror.requests == {INDEX: 2, CODE: 1, DATA: 1}
    mirror.files.clear()  # as without a network
    assert run(*command, "--mirror", mirror.address, "--replace").code == 0


def test_downloaded_code_is_never_run(mirror, tmp_path):
    mark = tmp_path / "was-run"
    mirror.files[CODE] = f"open({str(mark)!r}, 'w').close()\n".encode()
    mirror.download()
    assert (mirror.folder / NAME / "__init__.py").read_bytes() == mirror.files[CODE]
    assert not mark.exists()
    assert NAME not in sys.modules
    assert str(mirror.folder) not in sys.path


def test_the_parts_of_a_download_are_joined(mirror):
    content = mirror.files[DATA]
    mirror.put_parts(3)
    assert mirror.download()[0] == content


def test_the_address_without_a_mirror_is_that_of_gensim(mirror, monkeypatch):
    monkeypatch.setattr(downloader, "DATA_LIST_URL", f"{mirror.address}{INDEX}")
    monkeypatch.setattr(downloader, "DOWNLOAD_BASE_URL", mirror.address)
    mirror.address = None
    assert mirror.download()[0] == mirror.files[DATA]


@pytest.mark.parametrize("licence", [None, 7, "two\nlines", "\ud800"], ids=repr)
def test_an_invalid_licence_is_unknown(mirror, licence):
    mirror.put(license=licence)
    assert mirror.download()[1] == {"source": f"gensim-data {NAME}"}


def test_an_interrupted_download_leaves_nothing(mirror):
    """The server interrupts this process, and never ends its response."""
    mirror.endless.add(DATA)
    # Workers of pytest ignore the signal.
    with handler_of(signal.SIGINT, signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        mirror.download()
    assert [path.name for path in mirror.folder.iterdir()] == ["information.json"]


OFFLINE = "gensim-data cannot be reached. "
NO_INDEX = "The list.json of gensim-data, or of the mirror, is not an index of vectors."
INCOMPLETE = "The download is incomplete; try again."
CHECKSUM = "The downloaded file does not have the checksum of the index; try again."
ABSENT = "The server responds with 404 to the request for the file; try again later."


def wrong_part(mirror):
    mirror.put_parts(2)
    mirror.files[f"{DATA}_01"] += b"\0"


def index(content):
    return lambda mirror: mirror.files.update({INDEX: content})


entry = partial(partial, Mirror.put)
FAILURES = {
    "wrong checksum": (entry(checksum="0" * 32), CHECKSUM),
    "wrong checksum of a part": (wrong_part, CHECKSUM),
    "no file": (lambda mirror: mirror.files.pop(DATA), ABSENT),
    "cut download": (lambda mirror: mirror.cut.add(DATA), INCOMPLETE),
    "cut index": (lambda mirror: mirror.cut.add(INDEX), INCOMPLETE),
    "index that is not JSON": (index(b"<!doctype html><title>Welcome</title>"), NO_INDEX),
    "index without corpora": (index(b'{"models": {}}'), NO_INDEX),
    "index of names alone": (index(b'{"corpora": {}, "models": ["%b"]}' % NAME.encode()), NO_INDEX),
    "index nested without end": (index(b"[" * 100_000 + b"]" * 100_000), NO_INDEX),
    "file elsewhere": (entry(file_name="../../x"), NO_INDEX),
    "file that is a folder": (entry(file_name=".."), NO_INDEX),
    "no file named": (entry(file_name=None), NO_INDEX),
    "no checksum": (entry(checksum=None), NO_INDEX),
    "parts in words": (entry(parts="two"), NO_INDEX),
}


# gensim does not close the connection of an index that ends early.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_reported_in_one_sentence_and_leaves_nothing(mirror, case):
    prepare, sentence = FAILURES[case]
    prepare(mirror)
    assert mirror.problem() == sentence
    # Afterwards, the same command succeeds.
    mirror.cut.clear()
    mirror.files.clear()
    mirror.put()
    mirror.download()


def test_an_unknown_name_is_rejected_with_the_known_ones(mirror):
    for name in ("word2vec-x", "__testing", "bad\x1b[31mname", "../up"):
        mirror.put(name)
    sentence = f"gensim-data has no such vectors; it has {NAME}, word2vec-x."
    assert mirror.problem("glove-z") == mirror.problem("../up") == sentence
    del mirror.files[INDEX]
    mirror.put("old", latest=False)
    mirror.put("text8", kind="corpora")
    sentence = "gensim-data has a corpus of this name, not vectors."
    assert mirror.problem("text8") == sentence
    assert mirror.problem("old") == "gensim-data has no such vectors; it has none."


def test_a_file_name_that_differs_from_the_index_is_reported(mirror):
    mirror.download()
    mirror.put(file_name="other.gz")
    with pytest.raises(ImportProblem, match="lacks the file named in the index; remove the folder"):
        mirror.download()


def test_a_missing_network_is_reported_with_a_hint(mirror):
    address, nobody = mirror.address, f"http://127.0.0.1:{free_port()}"
    mirror.address = nobody
    assert mirror.problem().startswith(OFFLINE)
    mirror.address = address
    mirror.problem("another")
    mirror.address = nobody
    assert mirror.problem().startswith(OFFLINE)  # the index is cached, the file is not


@pytest.mark.parametrize("address", ["gensim-data", "file:///etc", "http://127.0.0.1:port"])
def test_an_invalid_address_of_a_mirror_is_rejected(mirror, address):
    mirror.address = address
    assert mirror.problem() == "The mirror must be a URL that begins with https:// or http://."
    assert not mirror.folder.exists()


def test_a_data_folder_that_cannot_be_created_is_reported(mirror):
    mirror.folder.touch()
    sentence = "gensim's data folder cannot be created; set GENSIM_DATA_DIR to another one."
    assert mirror.problem() == sentence
