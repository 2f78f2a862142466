"""`polyseme models import` in this process, with a folder for models."""

from typing import NamedTuple

import pytest

from polyseme.models.reader import read_model
from tests.cli.conftest import run as run_command
from tests.importing.files import WORDS


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

    def read(self, file, *options):
        """Import a valid file, and return the words and vectors of the model."""
        done = self.run(file, "--name", "good", "--replace", "--no-weights", *options)
        assert done.code == 0, done.err
        assert [path.name for path in self.models.iterdir()] == ["good"]
        model = read_model(self.models / "good", verify=True)
        rows = range(len(model.vocabulary))
        return [model.vocabulary.word(row) for row in rows], model.vectors

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


@pytest.fixture
def importer(tmp_path):
    """An Importer for one test."""
    return Importer(tmp_path)


@pytest.fixture(scope="module")
def module_importer(tmp_path_factory):
    """An Importer for the many examples of Hypothesis."""
    return Importer(tmp_path_factory.mktemp("importer"))
