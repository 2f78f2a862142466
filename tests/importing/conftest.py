"""`polyseme models import` in this process, with a folder for models and one for scratch files."""

import io
import signal
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from polyseme.cli.main import polyseme
from polyseme.models.reader import read_model
from tests.importing.files import WORDS
from tests.importing.mirror import serving

PATIENCE = 120
"""Seconds after which a command is taken to hang."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Importer:
    """Runs the command, and checks the files that it leaves."""

    def __init__(self, place):
        self.place = place
        self.models, self.scratch = place / "the-models", place / "the-scratch"
        self.models.mkdir()
        self.scratch.mkdir()

    def file(self, content, name="file"):
        """Write a file to import."""
        path = self.place / name
        path.write_bytes(content)
        return path

    def run(self, file, *options):
        """Import a file; an exception other than an exit code is a failure."""
        path = self.file(file) if isinstance(file, bytes) else file
        return run("models", "import", path, "--models-dir", self.models, *options)

    def read(self, file, *options):
        """Import a file that is good, and read the model: its words and vectors."""
        done = self.run(file, "--name", "good", "--replace", "--no-weights", *options)
        assert done.code == 0, done.err
        assert not any(self.scratch.iterdir())
        assert [path.name for path in self.models.iterdir()] == ["good"]
        model = read_model(self.models / "good", verify=True)
        rows = range(len(model.vocabulary))
        return [model.vocabulary.word(row) for row in rows], model.vectors

    def refusal(self, file, *options):
        """The one sentence that refuses a file, which leaves everything as it was."""
        path = self.file(file) if isinstance(file, bytes) else file
        before = below(self.place)
        done = self.run(path, *options)
        assert (done.code, done.out) == (1, ""), done.err
        sentence = refusal_in(done.err)
        assert str(self.place) not in done.err
        assert below(self.place) == before
        return sentence


def run(*arguments):
    """Run `polyseme` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patience():
        try:
            polyseme([str(argument) for argument in arguments], prog_name="polyseme")
        except SystemExit as end:
            code = end.code
    return Done(code, out.getvalue(), err.getvalue())


@contextmanager
def patience():
    """Fail a command that hangs."""

    def give_up(*_):
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refusal_in(err):
    """The last line of standard error; lines before it report progress."""
    *course, last = err.splitlines()
    assert all(map(is_course, course)), err
    assert last.startswith("polyseme: ")
    assert last.endswith(".")
    assert "Traceback" not in err
    assert not [word for word in WORDS if word in err]
    return last.removeprefix("polyseme: ")


def is_course(line):
    """Whether a line is the estimate of an import, or a warning."""
    return " of memory to import, " in line or line.startswith("polyseme: Warning: ")


def below(folder):
    """All files below a folder, hidden ones included, with their bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@contextmanager
def an_importer(place):
    """The command with its own folders below a path."""
    made = Importer(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(made.scratch))
        patch.setattr(tempfile, "tempdir", None)
        yield made


@pytest.fixture
def importer(tmp_path):
    """The command, for one test."""
    with an_importer(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def lasting_importer(tmp_path_factory):
    """The command, for the many examples of a property."""
    with an_importer(tmp_path_factory.mktemp("importer")) as made:
        yield made


@pytest.fixture
def mirror():
    with serving() as served:
        yield served


@pytest.fixture
def puller(tmp_path, monkeypatch):
    from tests.importing.puller import Puller  # it runs the command as this module does

    return Puller(tmp_path, monkeypatch)
