"""`polyseme models pull` from a local mirror of gensim-data."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest
from gensim import downloader

from polyseme.models.reader import read_model
from tests.cli.conftest import run_process
from tests.conftest import PYTHONPATH
from tests.importing import files
from tests.importing.comparison import GENSIM_DATA, assert_same, word2vec
from tests.importing.import_process import wait_for
from tests.importing.mirror import NAME
from tests.signals import default_handling

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


@pytest.mark.skipif(not GENSIM_DATA.exists(), reason="this gensim is without its test data")
def test_vectors_of_any_format_are_those_of_gensim(mirror, puller):
    """gensim-data has word2vec text and binary files; it used to have GloVe files."""
    glove = (GENSIM_DATA / "test_glove.txt").read_bytes()
    right = word2vec(GENSIM_DATA / "test_glove.txt", no_header=True)
    mirror.put(b"%d %d\n" % right.vectors.shape + glove, "text")
    mirror.put(glove, "glove")
    mirror.put((GENSIM_DATA / "euclidean_vectors.bin").read_bytes(), "binary")
    for name in ("text", "glove", "binary"):
        assert puller.pull(name, mirror=mirror).code == 0
    for name in ("text", "glove"):
        assert_same(read_model(puller.models / name), right.index_to_key, right.vectors)
    binary = word2vec(GENSIM_DATA / "euclidean_vectors.bin", binary=True)
    assert_same(read_model(puller.models / "binary"), binary.index_to_key, binary.vectors)


def test_options_are_those_of_an_import(mirror, puller):
    mirror.put(files.text())
    options = ["--name", "mine", "--licence", "CC0", "--language", "zu", "--limit", "2"]
    done = puller.pull(NAME, *options, "--dtype", "float16", "--no-weights", mirror=mirror)
    assert done.code == 0
    manifest = read_model(puller.models / "mine").manifest
    assert (manifest.licence, manifest.languages) == ("CC0", ["zu"])
    assert (manifest.vocabulary_size, manifest.dtype) == (2, "float16")
    assert manifest.training["attention"] == "parameter-free"


def test_a_download_is_cached(mirror, puller):
    mirror.put(files.text())
    assert puller.pull(NAME, mirror=mirror).code == 0
    assert mirror.requests == {"/list.json": 1, f"/{NAME}/__init__.py": 1, DATA: 1}
    first = (puller.models / NAME / "manifest.json").read_bytes()
    assert puller.pull(NAME, "--replace", mirror=mirror).code == 0
    assert mirror.requests == {"/list.json": 2, f"/{NAME}/__init__.py": 1, DATA: 1}
    assert (puller.models / NAME / "manifest.json").read_bytes() == first


def test_a_cached_download_needs_no_network(mirror, puller):
    mirror.put(files.text())
    assert puller.pull(NAME, mirror=mirror).code == 0
    mirror.files.clear()
    assert puller.pull(NAME, "--replace", mirror=mirror).code == 0
    assert_is_the_table(read_model(puller.models / NAME))


def test_an_existing_model_is_not_downloaded_again(mirror, puller):
    mirror.put(files.text())
    assert puller.pull(NAME, mirror=mirror).code == 0
    mirror.requests.clear()
    done = puller.pull(NAME, mirror=mirror)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("polyseme: A model of this name already exists; --replace ")
    assert not mirror.requests


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
    mirror.hold.add(DATA)
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
    wait_for(lambda: mirror.requests[DATA] or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert (out, b"Traceback" in err) == (b"", False), err
    assert not models.exists()
    assert not any(scratch.iterdir())
    assert [path.name for path in data.iterdir()] == ["information.json"]
