"""Failures of `polyseme models pull`: each has one sentence and leaves no files."""

import json

import pytest
from gensim import downloader

from tests.conftest import free_port
from tests.importing import files
from tests.importing.mirror import NAME

DATA = f"/{NAME}/{NAME}.gz"
OFFLINE = (
    "gensim-data cannot be reached. On a machine with network access, run `polyseme models pull`"
    " and copy the model's folder, or download the file of vectors and run `polyseme models import`"
    " here; --mirror names another server with list.json and NAME/NAME.gz."
)
NO_INDEX = (
    "The list.json of gensim-data, or of the mirror, is not an index of vectors; --mirror names"
    " another server."
)
CUT = "The download is incomplete; try again."


def wrong_checksum(mirror):
    mirror.put(files.text(), checksum="0" * 32)


def wrong_part(mirror):
    mirror.put_parts(files.text())
    mirror.files[f"{DATA}_01"] += b"\0"


def no_file(mirror):
    mirror.put(files.text())
    del mirror.files[DATA]


def no_second_part(mirror):
    mirror.put_parts(files.text())
    del mirror.files[f"{DATA}_01"]


def cut(path):
    def prepare(mirror):
        mirror.put(files.text())
        mirror.cut.add(path)

    return prepare


def index(content):
    def prepare(mirror):
        mirror.put(files.text())
        mirror.files["/list.json"] = content

    return prepare


def entry(**changes):
    def prepare(mirror):
        mirror.put(files.text(), **changes)

    return prepare


CHECKSUM = "The downloaded file does not have the checksum of the index; try again."
ABSENT = (
    "The server responds with 404 to the request for the file; try again later, or name another"
    " mirror with --mirror."
)
NESTED = b"[" * 100_000 + b"]" * 100_000
FAILURES = {
    "wrong checksum": (wrong_checksum, CHECKSUM),
    "wrong checksum of a part": (wrong_part, CHECKSUM),
    "no file": (no_file, ABSENT),
    "no second part": (no_second_part, ABSENT),
    "cut download": (cut(DATA), CUT),
    "cut code": (cut(f"/{NAME}/__init__.py"), CUT),
    "cut index": (cut("/list.json"), CUT),
    "index that is no JSON": (index(b"<!doctype html><title>Welcome</title>"), NO_INDEX),
    "index that is no text": (index(b"\xff\xfe\x00"), NO_INDEX),
    "index that is empty": (index(b""), NO_INDEX),
    "index that is a list": (index(b"[]"), NO_INDEX),
    "index without corpora": (index(b'{"models": {}}'), NO_INDEX),
    "index of names alone": (
        index(json.dumps({"corpora": {}, "models": [NAME]}).encode()),
        NO_INDEX,
    ),
    "index nested without end": (index(NESTED), NO_INDEX),
    "index of invalid entries": (
        index(json.dumps({"corpora": {}, "models": {NAME: "here"}}).encode()),
        NO_INDEX,
    ),
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
    prepare(mirror)
    assert puller.refusal(NAME, mirror=mirror) == sentence


def test_after_a_failure_the_same_command_succeeds(mirror, puller):
    for case, (prepare, _) in FAILURES.items():
        mirror.files.clear()
        prepare(mirror)
        assert puller.pull(NAME, mirror=mirror).code == 1, case
        mirror.cut.clear()
    mirror.files.clear()
    mirror.put(files.text())
    (puller.data / f"{NAME}_tmp").mkdir()  # left by a killed download
    assert puller.pull(NAME, mirror=mirror).code == 0


def test_an_unknown_name_is_rejected_with_the_known_ones(mirror, puller):
    for name in ("word2vec-x", "glove-y", "__testing", "bad\x1b[31mname", "../up"):
        mirror.put(files.text(), name)
    sentence = "gensim-data has no such vectors; it has glove-y, word2vec-x."
    assert puller.refusal("glove-z", mirror=mirror) == sentence
    assert puller.refusal("../up", "--name", "up", mirror=mirror) == sentence


def test_an_index_without_vectors_is_reported(mirror, puller):
    mirror.put(b"text", "text8", kind="corpora")
    assert puller.refusal(NAME, mirror=mirror) == "gensim-data has no such vectors; it has none."


def test_a_corpus_is_rejected(mirror, puller):
    mirror.put(b"text", "text8", kind="corpora")
    sentence = "gensim-data has a corpus of this name, not vectors."
    assert puller.refusal("text8", mirror=mirror) == sentence
    assert set(mirror.requests) == {"/list.json"}


def test_a_file_name_that_differs_from_the_index_is_reported(mirror, puller):
    mirror.put(files.text(), file_name="other.gz")
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "polyseme: The folder of this name in gensim's data folder lacks the file named in the"
        " index; remove the folder and try again.\n"
    )
    assert not puller.models.exists()


def test_invalid_vectors_are_rejected_as_by_an_import(mirror, puller):
    mirror.put(files.text(header=b"9 3"))
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line == "polyseme: Line 1 declares 9 words, but the file ends after 4."
    assert not puller.models.exists()


def test_a_missing_network_is_reported_with_a_hint(puller, monkeypatch, caplog):
    """The proxy of gensim's own address is a closed port. gensim logs nothing."""
    monkeypatch.delenv("no_proxy")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert puller.refusal(NAME) == OFFLINE
    assert downloader.__name__ not in {record.name for record in caplog.records}


@pytest.mark.slow
def test_an_unreachable_mirror_is_reported(puller):
    assert puller.refusal(NAME, "--mirror", f"http://127.0.0.1:{free_port()}") == OFFLINE


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
