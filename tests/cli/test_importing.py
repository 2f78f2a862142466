"""`polyseme models import` as it is called: names, options, what it says and where."""

import os

import pytest

from polyseme.models.reader import read_model
from tests.cli.conftest import run
from tests.conftest import ROOT
from tests.importing.conftest import an_importer
from tests.importing.files import WORDS, binary, fasttext, packed, rows, text
from tests.importing.foreign import FOREIGN, MARK
from tests.importing.spoiled_fasttext import FASTTEXTS
from tests.importing.spoiled_rows import ROWS
from tests.models.damage import snapshot
from tests.tiny import write_tiny

ESTIMATE = (
    "polyseme: 4 words of 3 numbers: about 130 MB of memory to import, 1 MB on disk, which all"
    " workers that serve it share."
)
UNTOLD = (
    "polyseme: Warning: too few English function words to tell whether the words are in the order"
    " of their frequency, so each counts as informative as the next; --sorted says that they are."
)
NO_TEXT = "\udcff"
"""How Python has a byte of the command line that is not UTF-8."""
A_NAME = (
    "polyseme: A model's name is letters, digits, `.`, `_` and `-`, at most 64 and the first a"
    " letter or digit; give one by --name.\n"
)


@pytest.fixture
def importing(tmp_path):
    """The real command, with a file called `vectors.txt` and a folder of models."""

    def call(*options, content=None, file="vectors.txt", **variables):
        if content is not None:
            (tmp_path / file).write_bytes(content)
        (tmp_path / "scratch").mkdir(exist_ok=True)
        models = tmp_path / "models"
        return run(
            *("models", "import", tmp_path / file, *options),
            models_dir=models,
            TMPDIR=str(tmp_path / "scratch"),
            PYTHONPATH=str(ROOT),
            **variables,
        )

    call.models, call.place = tmp_path / "models", tmp_path
    return call


@pytest.fixture
def importer(tmp_path):
    """The command in this process, for what ends before any work."""
    with an_importer(tmp_path) as made:
        yield made


def test_the_result_is_on_standard_output_and_the_course_on_standard_error(importing):
    done = importing(content=rows())
    assert done.returncode == 0
    assert done.stdout == b"vectors  4 words  3 wide  float32  cased  closed form\n"
    assert done.stderr.decode().splitlines() == [ESTIMATE, UNTOLD]
    assert len(read_model(importing.models / "vectors", verify=True).vocabulary) == 4


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (rows(), ["--no-weights"], "float32  cased  parameter-free"),
        (text(), ["--dtype", "float16", "--limit", "2"], "2 words  3 wide  float16"),
        (binary(), ["--name", "a.b-c_D1"], "a.b-c_D1  4 words"),
        (fasttext(), [], "float32  cased  closed form"),
        (rows(["gnu", "emu", "yak", "auk"]), ["--sorted"], "float32  lower-case  closed form"),
    ],
)
def test_what_was_imported_is_said_in_one_line(importing, content, options, said):
    done = importing(*options, content=content)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    assert said in done.stdout.decode()


def test_a_model_that_was_imported_is_listed_shown_and_whole(importing):
    importing("--licence", "PDDL — ½", "--language", "en", "--language", "de", content=rows())
    for command in (["list"], ["verify", "vectors"], ["show", "vectors"]):
        done = run("models", *command, models_dir=importing.models, PYTHONPATH=str(ROOT))
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"vectors" in done.stdout
    manifest = read_model(importing.models / "vectors").manifest
    assert (manifest.licence, manifest.languages) == ("PDDL — ½", ["en", "de"])
    assert manifest.source == "vectors.txt"


REFUSED = {
    "columns": ROWS["another number of columns"]["a number more"],
    "count": ROWS["a count that lies"]["huge, binary"],
    "encoding": ROWS["a word that is not UTF-8"]["in text"],
    "twice": ROWS["a word twice"]["in binary"],
    "infinity": ROWS["a number that is not finite"]["1e39"],
    "no number": ROWS["something that is not a number"]["hexadecimal"],
    "empty": FOREIGN["empty"]["nothing"],
    "pickle": FOREIGN["a pickle"]["harmful, protocol 4"],
    "old pickle": FOREIGN["a pickle"]["harmful, protocol 0"],
    "fastText": FASTTEXTS["cut off"]["in a word"],
    "NaN": FASTTEXTS["a vector that is not finite"]["nan in an n-gram"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_spoiled_file_ends_in_one_sentence(importing, case):
    content, sentence = REFUSED[case]
    done = importing(content=packed(content, "gz" if "old" in case else "plain"))
    assert (done.returncode, done.stdout) == (1, b"")
    *course, last = done.stderr.decode().splitlines()
    assert last == f"polyseme: {sentence}"
    assert all(" of memory to import, " in line for line in course)
    assert {path.name for path in importing.place.iterdir()} == {"scratch", "vectors.txt"}
    assert not any((importing.place / "scratch").iterdir())
    assert not (ROOT / MARK).exists()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "../x", "x/", "é", ".x", "-x", " x", "x\n", "x" * 65]
)
@pytest.mark.parametrize("replace", [[], ["--replace"]])
def test_a_name_that_no_model_can_have_is_refused_and_touches_nothing(importer, name, replace):
    write_tiny(importer.models / "tiny")
    file = importer.file(rows())
    before = snapshot(importer.place)
    assert importer.run(file, f"--name={name}", *replace) == (1, "", A_NAME)
    assert snapshot(importer.place) == before


def test_a_name_that_is_a_whole_path_leads_nowhere_else(importing):
    elsewhere = importing.place / "elsewhere"
    done = importing("--name", elsewhere, "--replace", content=rows())
    assert (done.returncode, done.stderr.decode()) == (1, A_NAME)
    assert not elsewhere.exists()


def test_a_file_whose_name_no_model_can_have_needs_another(importing):
    done = importing(content=rows(), file="the vectors.txt")
    assert (done.returncode, done.stderr.decode()) == (1, A_NAME)
    assert importing("--name", "the-vectors", file="the vectors.txt").returncode == 0


def test_a_model_is_only_replaced_where_that_is_said(importing):
    importing(content=rows())
    before = snapshot(importing.models)
    done = importing(content=rows(WORDS[::-1]))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "polyseme: A model of this name is there already; --replace puts the new one in its place."
        "\n"
    )
    assert snapshot(importing.models) == before
    assert importing("--replace").returncode == 0
    assert read_model(importing.models / "vectors").vocabulary.word(0) == WORDS[-1]
    assert [path.name for path in importing.models.iterdir()] == ["vectors"]


def test_a_model_stays_where_its_replacement_is_spoiled(importing):
    importing(content=rows())
    before = snapshot(importing.models)
    assert importing("--replace", content=rows() + rows()).returncode == 1
    assert snapshot(importing.models) == before


def test_a_file_where_the_model_would_be_is_not_touched(importing):
    importing.models.mkdir()
    (importing.models / "vectors").write_bytes(b"mine")
    for options in ([], ["--replace"]):
        done = importing(*options, content=rows())
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().splitlines()[-1].startswith("polyseme: ")
    assert (importing.models / "vectors").read_bytes() == b"mine"
    assert [path.name for path in importing.models.iterdir()] == ["vectors"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--format", "pickle"], "--format"),
        (["--encoding", "nonsense"], "--encoding"),
        (["--encoding", "rot13"], "--encoding"),
        (["--encoding", "base64"], "--encoding"),
        (["--encoding", "idna"], "--encoding"),
        (["--encoding", "undefined"], "--encoding"),
        (["--encoding", NO_TEXT], "--encoding"),
        (["--limit", "0"], "--limit"),
        (["--limit", "many"], "--limit"),
        (["--dtype", "float64"], "--dtype"),
        (["--processes", "0"], "--processes"),
        (["--processes", "65"], "--processes"),
        (["--heads", "0"], "--heads"),
        (["--licence", NO_TEXT], "not valid UTF-8"),
        (["--language", NO_TEXT], "not valid UTF-8"),
        (["--weights", "/nowhere"], "--weights"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(importer, options, named):
    done = importer.run(rows(), *options)
    assert (done.code, done.out) == (2, "")
    assert "Error: " in done.err
    assert named in done.err
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("file", ["nothing.txt", "."])
def test_what_is_no_file_is_a_usage_error(importing, file):
    done = importing(file=file)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "Error: Invalid value for 'FILE'" in done.stderr.decode()


def test_a_file_that_is_being_written_to_a_pipe_is_refused(importing):
    os.mkfifo(importing.place / "pipe")
    done = importing(file="pipe")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"polyseme: The file is not a regular one; ")
