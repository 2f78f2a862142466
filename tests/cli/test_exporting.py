"""`polyseme models export`, in processes of its own."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from gensim.models import KeyedVectors

from polyseme.settings import BUNDLED
from tests.cli.conftest import run
from tests.conftest import ROOT
from tests.signals import heard
from tests.tiny import VECTORS, WORDS, write_tiny


def assert_refused(done, sentence):
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"polyseme: {sentence}\n"


def test_word2vec_text_is_what_gensim_and_an_import_read(polyseme, tmp_path):
    out, models = tmp_path / "tiny.txt", tmp_path / "models"
    done = polyseme("models", "export", "tiny", "--output", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    read = KeyedVectors.load_word2vec_format(out)
    assert read.index_to_key == list(WORDS)
    assert np.array_equal(read.vectors, VECTORS)
    again = run("models", "import", out, "--no-weights", models_dir=models)
    assert again.returncode == 0
    back = run("models", "export", "tiny", "--output", tmp_path / "back.txt", models_dir=models)
    assert back.returncode == 0
    assert (tmp_path / "back.txt").read_bytes() == out.read_bytes()


def test_the_bundled_model_comes_back_from_its_text_to_the_bit(bundled, tmp_path):
    """8 bits and a scale; words of the tokenizer have no white space, so none is lacking."""
    out, models = tmp_path / "wiki.txt", tmp_path / "models"
    done = run("models", "export", BUNDLED, "--output", out, "--limit", "5000")
    assert (done.returncode, done.stderr) == (0, b"")
    options = ["--no-weights", "--name", "again"]
    assert run("models", "import", out, *options, models_dir=models).returncode == 0
    stored = np.load(models / "again" / "vectors.npy", mmap_mode="r")
    assert stored.dtype == np.float32
    assert stored.tobytes() == bundled.rows[:5000].tobytes()
    words = (models / "again" / "vocabulary.txt").read_text().splitlines()
    assert words == [bundled.vocabulary.word(row) for row in range(5000)]


def test_the_projector_gets_a_folder_with_two_files(polyseme, tmp_path):
    out = tmp_path / "made" / "projector"
    done = polyseme("models", "export", "tiny", "--format", "projector", "--output", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert sorted(path.name for path in out.iterdir()) == ["metadata.tsv", "vectors.tsv"]
    assert (out / "metadata.tsv").read_text().splitlines() == list(WORDS)
    assert np.array_equal(np.loadtxt(out / "vectors.tsv", delimiter="\t"), VECTORS)
    limited = ["models", "export", "tiny", "--format", "projector", "--limit", "2"]
    assert polyseme(*limited, "--output", out).returncode == 0
    assert (out / "metadata.tsv").read_text().splitlines() == list(WORDS[:2])
    assert len((out / "vectors.tsv").read_text().splitlines()) == 2


def test_words_that_are_left_out_are_counted_on_standard_error(tmp_path):
    words = ["New York", "a\tb", *WORDS[2:]]
    write_tiny(tmp_path / "models" / "spaced", words=words)
    for kind, left in (("word2vec-text", 2), ("projector", 1)):
        out = tmp_path / kind
        arguments = ["models", "export", "spaced", "--format", kind, "--output", out]
        done = run(*arguments, models_dir=tmp_path / "models")
        assert (done.returncode, done.stdout) == (0, b"")
        sentence = f"polyseme: {left} words with white space were left out.\n"
        assert done.stderr.decode() == sentence


def test_what_cannot_be_written_is_told_in_a_sentence(polyseme, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("before")
    os.mkfifo(tmp_path / "pipe")
    nowhere, into = tmp_path / "none" / "out.txt", ["--format", "projector", "--output"]
    for arguments, sentence in {
        ("--output", nowhere): f"There is no such folder ({tmp_path / 'none'}).",
        ("--output", tmp_path / "folder"): "The path exists and is not a regular file ({}).",
        ("--output", tmp_path / "pipe"): "The path exists and is not a regular file ({}).",
        (*into, tmp_path / "file"): "File exists ({}).",
    }.items():
        done = polyseme("models", "export", "tiny", *arguments)
        assert_refused(done, sentence.format(arguments[-1]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "pipe"]
    assert not any((tmp_path / "folder").iterdir())
    assert (tmp_path / "file").read_text() == "before"


@pytest.mark.parametrize("name", ["nobody", "../tiny"])
def test_an_unknown_model_writes_nothing(polyseme, tmp_path, name):
    done = polyseme("models", "export", name, "--output", tmp_path / "out.txt")
    assert_refused(done, "No model of this name is here. `polyseme models list` lists the models.")
    assert not any(tmp_path.iterdir())


def test_a_broken_model_writes_nothing(polyseme, tmp_path):
    done = polyseme("models", "export", "broken", "--output", tmp_path / "out.txt")
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("polyseme: vectors.npy has")
    assert not any(tmp_path.iterdir())


DEAF = 'trap "" HUP; exec "$@"'
LIMITED = ("sh", "-c", 'ulimit -f 1000; exec "$@"', "sh")
"""Before a command: no file may have more than a thousand blocks."""


def begin(*arguments, before=()):
    """Start to export the bundled model, which takes a while."""
    command = [sys.executable, "-m", "polyseme", "models", "export", BUNDLED]
    return subprocess.Popen(
        [*before, *command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def signalled(process, folder, number):
    """Send a signal as soon as something is written."""
    while not list(folder.rglob(".writing-*")):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    said, told = process.communicate(timeout=60)
    assert (said, b"Traceback" in told) == (b"", False)
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    [("word2vec-text", signal.SIGINT), ("projector", signal.SIGTERM), ("projector", signal.SIGHUP)],
    ids=str,
)
def test_an_interrupted_export_leaves_nothing(tmp_path, kind, number):
    with heard(number):
        process = begin("--format", kind, "--output", tmp_path / "out")
    assert signalled(process, tmp_path, number) not in {0, -number}
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_an_export_under_nohup_goes_on(tmp_path):
    process = begin("--output", tmp_path / "out", before=("sh", "-c", DEAF, "sh"))
    assert signalled(process, tmp_path, signal.SIGHUP) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["word2vec-text", "projector"])
def test_an_export_that_does_not_fit_leaves_nothing(tmp_path, kind):
    """A limit to the size of files stands for a full disk: writing fails in the middle."""
    process = begin("--format", kind, "--output", tmp_path / "out", before=LIMITED)
    said, told = process.communicate(timeout=60)
    assert (process.returncode, said, told) == (1, b"", b"polyseme: File too large.\n")
    assert not any(tmp_path.iterdir())
