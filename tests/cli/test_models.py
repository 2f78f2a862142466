"""`polyseme models`: list, show, verify, import and export."""

import errno
import json
import re

import pytest

from polyseme.models.reader import read_model
from polyseme.settings import BUNDLED
from tests.cli.conftest import run
from tests.conftest import write_over_bundled
from tests.importing.files import WORDS, binary, fasttext, rows, text
from tests.models.damage import snapshot
from tests.tiny import WORDS as TINY_WORDS
from tests.tiny import write_tiny


def test_models_are_listed_and_the_default_one_is_marked(polyseme):
    done = polyseme("models", "list")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = re.sub("-[0-9a-f]{16}", "", done.stdout.decode()).splitlines()
    assert "* tiny  11 words  5 wide  float32  3 heads  2 layers" in lines
    problem = "the number of bytes differs from manifest.json."
    assert f"  broken  broken: vectors.npy: {problem}" in lines
    assert "  unreadable  broken: manifest.json, name: is required." in lines
    names = [line[2:].split("  ")[0] for line in lines]
    assert names == sorted(names)
    document = json.loads(polyseme("models", "show", "tiny").stdout)
    assert (document["name"], document["dimension"], document["heads"]) == ("tiny", 5, 3)
    assert document["vocabulary_size"] == 11
    done = polyseme("models", "list", POLYSEME_MODEL="nobody")
    warning = "polyseme: Warning: no model is named nobody, the default (POLYSEME_MODEL): set"
    assert done.returncode == 0 and b"*" not in done.stdout
    assert done.stderr.decode() == f"{warning} another one.\n"


def test_a_model_over_the_bundled_one_is_a_model_like_others(tmp_path):
    folder = tmp_path / "models"
    write_over_bundled(folder / "deep")
    listed = run("models", "list", models_dir=folder).stdout.decode().splitlines()
    expected = f"100000 words  300 wide  int8  4 heads  1 layer  tables of {BUNDLED}"
    assert f"  deep  {expected}" in listed
    assert json.loads(run("models", "show", "deep", models_dir=folder).stdout)["base"] == BUNDLED
    assert run("models", "verify", "deep", models_dir=folder) == (0, b"deep: ok\n", b"")


def test_verifying_goes_on_after_a_broken_model_and_fails(polyseme):
    done = polyseme("models", "verify", "broken", "unreadable", "tiny")
    assert done.returncode == 1
    printed = re.sub("-[0-9a-f]{16}", "", (done.stdout + done.stderr).decode())
    assert printed.splitlines() == [
        "broken: vectors.npy: the number of bytes differs from manifest.json.",
        "unreadable: manifest.json, name: is required.",
        "tiny: ok",
    ]
    assert polyseme("models", "verify", "tiny") == (0, b"tiny: ok\n", b"")


PART = f"{BUNDLED} is part of the installed package and cannot be"
UNKNOWN = ". Available: tiny, broken, unreadable, "


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("models show nobody", f"No model is named 'nobody'{UNKNOWN}"),
        ("encode --model ../tiny bank", "No model is named '../tiny'; did you mean `tiny`?"),
        ("serve --model nobody", "No model is named 'nobody'. Available: broken, tiny,"),
        ("encode --model broken bank", "vectors-"),
        ("models show unreadable", "manifest.json, name"),
        ("serve --model broken", "The default model 'broken' cannot be used: vectors-"),
        (f"models remove {BUNDLED} --yes", f"{PART} removed;"),
        (f"models rename {BUNDLED} new", f"{PART} renamed;"),
        ("models remove photos --yes", f"No model is named 'photos'{UNKNOWN}"),
        ("models remove ../broken --yes", "No model is named '../broken'; did you mean"),
        ("models remove tiny", "Standard input is not a terminal, so --yes is required."),
        ("models rename tiny broken", "A model broken already exists; `polyseme models remove`"),
        ("models rename tiny ../three", "A model's name has at most 64 letters"),
    ],
)
def test_a_command_that_is_rejected_says_why_in_one_sentence(
    polyseme, models_dir, command, message
):
    before = names(models_dir)
    done = polyseme(*command.split())
    *usage, line = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, names(models_dir)) == (1 + bool(usage), b"", before)
    assert line.startswith((f"polyseme: {message}", f"Error: {message}"))


@pytest.fixture
def user_models(tmp_path):
    """A folder of the models `one` and `two`, and `photos`, which is not a model."""
    for name in ("one", "two"):
        write_tiny(tmp_path / name)
    (tmp_path / "photos").mkdir()
    return tmp_path


@pytest.mark.parametrize(("answer", "code"), [("--yes", 0), ("y", 0), ("n", 1)])
def test_a_model_is_removed_on_a_terminal_after_a_question(user_models, monkeypatch, answer, code):
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    yes = [answer] if answer == "--yes" else []
    done = run("models", "remove", "one", *yes, models_dir=user_models, stdin=f"{answer}\n")
    question = f"Remove the model one in {user_models}? [y/N]:" in done.stderr.decode()
    assert question == (not yes)
    assert done.stdout == (b"" if code else b"one: removed\n")
    assert done.returncode == code
    assert names(user_models) == [*["one"] * code, "photos", "two"]


def test_a_renamed_model_has_the_same_files(user_models):
    before = snapshot(user_models / "one")
    done = run("models", "rename", "one", "three", models_dir=user_models)
    assert done == (0, b"one: renamed to three\n", b"")
    assert names(user_models) == ["photos", "three", "two"]
    assert snapshot(user_models / "three") == before
    assert read_model(user_models / "three").manifest.name == "three"


def test_a_change_of_the_default_model_warns_unless_it_is_bundled(user_models):
    done = run("models", "rename", "one", "new", models_dir=user_models, POLYSEME_MODEL="one")
    warning = "polyseme: Warning: one is the default model (POLYSEME_MODEL): set another one.\n"
    assert (done.returncode, done.stderr.decode()) == (0, warning)
    write_tiny(user_models / BUNDLED)
    done = run("models", "remove", BUNDLED, "--yes", models_dir=user_models)
    assert done == (0, f"{BUNDLED}: removed\n".encode(), b"")


NOT_UTF8 = "\udcff"
"""How Python represents a byte of the command line that is not UTF-8."""


@pytest.fixture
def models(tmp_path):
    """An empty folder for models."""
    return tmp_path / "models"


@pytest.fixture
def import_file(models):
    """`polyseme models import` of a file `vectors.txt`."""

    def call(content, *options):
        file = models.parent / "vectors.txt"
        file.write_bytes(content)
        return run("models", "import", file, *options, models_dir=models)

    return call


def test_an_import_prints_one_line_and_progress_on_error(import_file, models, monkeypatch):
    monkeypatch.setattr("polyseme.terminal.SECONDS", 1000)  # no line on a busy machine
    facts = ("--licence", "PDDL — ½", "--language", "en", "--language", "de")
    done = import_file(rows(), *facts)
    assert done.returncode == 0
    assert done.stdout == b"vectors  4 words  3 wide  float32  cased  closed form\n"
    size, warning = done.stderr.decode().splitlines()
    assert size == "polyseme: 4 words of dimension 3."
    assert warning.startswith("polyseme: Warning: there are too few words to determine whether")
    manifest = read_model(models / "vectors", verify=True).manifest
    assert (manifest.licence, manifest.languages) == ("PDDL — ½", ["en", "de"])
    assert (manifest.vocabulary_size, manifest.source) == (4, "vectors.txt")


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (rows(), ["--no-weights"], "float32  cased  parameter-free"),
        (text(), ["--dtype", "float16", "--limit", "2"], "2 words  3 wide  float16"),
        (binary(), ["--name", "a.b-c_D1"], "a.b-c_D1  4 words"),
        (fasttext(), [], "float32  cased  closed form"),
        (rows(["gnu", "emu", "yak", "auk"]), ["--sorted"], "float32  lower-case  closed form"),
    ],
)
def test_options_of_an_import(import_file, content, options, expected):
    done = import_file(content, *options)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    assert expected in done.stdout.decode()


def test_a_model_is_replaced_only_on_request(import_file, models):
    import_file(rows())
    before = snapshot(models)
    hint = "--name sets the name"
    for name, sentence, hints in (
        ("../up", "A model's name has at most 64 letters", hint),
        ("vectors", "A model of this name", f"--replace replaces it, and {hint}"),
        (BUNDLED, "A bundled model has", f"--replace replaces it, and {hint}"),
    ):
        done = import_file(rows(WORDS[::-1]), "--name", name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().startswith(f"polyseme: {sentence}")
        assert done.stderr.decode().endswith(f"; {hints}.\n")
    assert import_file(rows() + rows(), "--replace").returncode == 1  # a damaged file
    assert snapshot(models) == before
    assert import_file(rows(WORDS[::-1]), "--replace").returncode == 0
    assert read_model(models / "vectors").vocabulary.word(0) == WORDS[-1]
    assert import_file(rows(), "--name", BUNDLED, "--replace").returncode == 0
    assert names(models) == ["vectors", BUNDLED]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, None, errno.EIO])
def test_a_full_disk_is_reported(import_file, monkeypatch, number):
    def fail(*_, **__):
        raise OSError(number, "It is full")  # NumPy sets no number

    monkeypatch.setattr("polyseme.importing.importer.write_table", fail)
    done = import_file(rows())
    expected = "The disk of the models is full; --limit or --dtype int8 uses less."
    expected = "It is full." if number == errno.EIO else expected
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[-1] == f"polyseme: {expected}"


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "pickle"],
        *(["--encoding", name] for name in ("nonsense", "rot13", "idna", NOT_UTF8)),
        ["--limit", "0"],
        ["--dtype", "float64"],
        ["--strip", "("],
        ["--heads", "0"],
        ["--heads", "2"],
        ["--convention", "column"],
        ["--no-weights", "--weights", __file__],
        ["--weights", "/nowhere"],
        *([option, NOT_UTF8] for option in ("--licence", "--language")),
    ],
)
def test_an_invalid_option_is_a_usage_error(import_file, models, options):
    done = import_file(rows(), *options)
    assert (done.returncode, done.stdout) == (2, b"")
    error = done.stderr.decode(errors="surrogateescape")
    assert "Error: " in error and (options[0] in error or "not valid UTF-8" in error)
    assert not models.exists()


def test_an_export_skips_words_that_the_format_does_not_have(tmp_path, models):
    words = ["New York", "a\tb", *TINY_WORDS[2:]]
    write_tiny(models / "spaced", words=words)
    arguments = ["models", "export", "spaced", "--limit", 5, "--output"]
    done = run(*arguments, tmp_path / "tiny.txt", models_dir=models)
    assert done == (0, b"", b"polyseme: Skipped 2 words with white space.\n")
    size, *lines = (tmp_path / "tiny.txt").read_text().splitlines()
    assert (size, [line.split()[0] for line in lines]) == ("3 5", words[2:5])
    for output, sentence in (
        (tmp_path / "none" / "out.txt", f"There is no such folder ({tmp_path / 'none'})."),
        (tmp_path, f"The path exists and is not a regular file ({tmp_path})."),
    ):
        done = run(*arguments, output, models_dir=models)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode() == f"polyseme: {sentence}\n"
