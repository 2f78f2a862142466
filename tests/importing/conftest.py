"""`polyseme models import` in this process, with a folder for models."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.models.reader import read_model
from tests.cli.conftest import run as run_command
from tests.conftest import ROOT
from tests.importing.files import WORDS

SHARED = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Words, texts and published vectors, which are not a part of the repository."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Importer:
    """Runs the command, and checks the files that it leaves behind."""

    def __init__(self, place):
        self.place = place
        self.models = place / "the-models"
        self.models.mkdir()

    def file(self, content, name="file"):
        """Write a file to import."""
        path = self.place / name
        path.write_bytes(content)
        return path

    def run(self, file, *options):
        """Import a file; any exception other than SystemExit is a failure."""
        path = self.file(file) if isinstance(file, bytes) else file
        return run("models", "import", path, "--models-dir", self.models, *options)

    def model(self, file, *options, name="made"):
        """Import a valid file and return its model; `progress` becomes what the command says."""
        done = self.run(file, "--name", name, "--replace", *options)
        assert done.code == 0, done.err
        self.progress = done.err.splitlines()
        assert {path.name for path in self.models.iterdir()} <= {"made", "other"}
        return read_model(self.models / name, verify=True)

    def read(self, file, *options):
        """Import a valid file without weights, and return the words and vectors."""
        model = self.model(file, "--no-weights", *options)
        return words_of(model), model.vectors

    def check(self, file, words, vectors, *options):
        """Check that a valid file gives these words, and these vectors to the last bit."""
        model = self.model(file, "--no-weights", *options)
        assert_same(model, words, vectors)

    def refusal(self, file, *options):
        """The one sentence that rejects a file; the import leaves all files as they were."""
        path = self.file(file) if isinstance(file, bytes) else file
        before = snapshot(self.place)
        done = self.run(path, *options)
        assert (done.code, done.out) == (1, ""), done.err
        sentence = refusal_in(done.err)
        assert str(self.place) not in done.err
        assert snapshot(self.place) == before
        return sentence


def run(*arguments, **variables):
    """Run `polyseme` in this process."""
    done = run_command(*arguments, **variables)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def refusal_in(err):
    """The last line of standard error; the lines before it report progress."""
    lines = err.splitlines()
    assert all(line.startswith("polyseme: ") for line in lines), err
    last = lines[-1]
    assert last.endswith(".")
    assert not [word for word in WORDS if word in err]
    return last.removeprefix("polyseme: ")


def snapshot(folder):
    """The names of all files and folders below a folder, and the bytes of the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def words_of(model):
    """The words of a model."""
    return [model.vocabulary.word(row) for row in range(len(model.vocabulary))]


def assert_same(model, words, vectors):
    """Check that a model has the words in this order and the vectors to the last bit."""
    assert words_of(model) == list(words)
    assert (model.vectors.dtype, model.vectors.shape) == (vectors.dtype, vectors.shape)
    assert model.vectors.tobytes() == np.ascontiguousarray(vectors).tobytes()


def assert_quantized(rows, vectors):
    """Check that rows are vectors, quantized, to the last bit."""
    right = quantize(vectors)
    assert rows.integers.tobytes() == right.integers.tobytes()
    assert rows.scales.tobytes() == right.scales.tobytes()


def assert_word_bias(model, counts):
    """Check that the word bias is log(1e-3 / (1e-3 + p)), with p the relative frequencies."""
    p = np.array(counts) / np.sum(counts, dtype=np.float64)
    np.testing.assert_allclose(model.word_bias, np.log(1e-3 / (1e-3 + p)), rtol=1e-6)
    assert model.layers[0].scoring.word_bias


@pytest.fixture
def importer(tmp_path):
    """An Importer for one test."""
    return Importer(tmp_path)


@pytest.fixture(scope="module")
def module_importer(tmp_path_factory):
    """An Importer for the many examples of Hypothesis."""
    return Importer(tmp_path_factory.mktemp("importer"))
