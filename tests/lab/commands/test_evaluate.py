"""`polyseme evaluate` on tiny sets, and on the real ones if present."""

import json
from functools import cache

import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from tests.cli.conftest import run_process, without
from tests.lab.evaluation.sets import COARSE, WIC, archived, unpacked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder with two tiny evaluation sets."""
    folder = tmp_path_factory.mktemp("sets")
    archived(folder / "coarsewsd.tar.xz", COARSE)
    unpacked(folder, WIC)
    return folder


@pytest.fixture(scope="module")
def measured(polyseme, sets, tmp_path_factory):
    """A function that returns the table and the JSON of a task; each runs once."""
    folder = tmp_path_factory.mktemp("measured")

    @cache
    def measure(task, number=1):
        file = folder / f"{task}-{number}.json"
        done = polyseme("evaluate", task, sets, "--json", file)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode(), file.read_bytes()

    return measure


def test_the_model_and_its_controls_are_in_one_table(measured):
    title, _, head, *rows = measured("coarsewsd")[0].splitlines()
    assert title.startswith("CoarseWSD-20, 1 words, 4 test sentences")
    assert head.split() == ["accuracy", "macro-F1"]
    titles = (
        *("most frequent sense", "static vector", "plain mean of the context"),
        *("parameter-free attention", "random projections", "closed form"),
        "contextual vector (tiny)",
    )
    assert all(row.startswith(title) for row, title in zip(rows, titles, strict=False))
    assert rows[0].split()[3:] == ["50.00", "[0.0,", "100.0]", "33.33", "[0.0,", "100.0]"]
    assert "1,000 bootstrap resamples of each word's test sentences (seed 1)" in rows[-2]


def test_the_same_command_gives_the_same_bytes(measured):
    assert measured("wic") == measured("wic", 2)


def test_the_document_agrees_with_the_table(measured, sets):
    text, document = measured("wic")
    found = json.loads(document)
    assert (found["task"], found["model"], found["split"], found["pairs"]) == (
        *("wic", "tiny", "dev", 3),
    )
    names = ["static", "mean", "parameter-free", "random", "closed-form", "model"]
    assert list(found["systems"]) == names
    for one in found["systems"].values():
        assert f"{one['title']} " in text
        assert f"{one['accuracy']['value']:.2f}" in text
    assert found["versions"].keys() >= {"numpy", "scikit-learn", "scipy"}
    assert str(sets) not in text + document.decode()


def test_only_the_requested_systems_are_measured(polyseme, sets, tmp_path):
    done = polyseme("evaluate", "wic", sets, "--no-controls", "--json", tmp_path / "a.json")
    assert list(json.loads((tmp_path / "a.json").read_bytes())["systems"]) == ["model"]
    names = "random,most-frequent, mean"
    done = polyseme(
        "evaluate", "coarsewsd", sets, "--systems", names, "--json", tmp_path / "b.json"
    )
    assert done.returncode == 0
    found = json.loads((tmp_path / "b.json").read_bytes())["systems"]
    assert list(found) == ["most-frequent", "mean", "random"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coarsewsd", "EMPTY"], "neither coarsewsd.tar.xz (or another .tar) nor"),
        (["coarsewsd", "SETS", "--model", "nobody"], "No model is named 'nobody'. Available: "),
        (["coarsewsd", "UNKNOWN"], "has none of the words of the set"),
        (["coarsewsd", "BROKEN"], "coarsewsd.tar.xz: the file is damaged"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_measurement_is_reported_in_one_sentence(
    polyseme, sets, tmp_path, arguments, message
):
    folders = {name: tmp_path / name.lower() for name in ("EMPTY", "UNKNOWN", "BROKEN")}
    for folder in folders.values():
        folder.mkdir()
    # The vocabulary lacks `mole`.
    unknown = {
        name.replace("/bank/", "/mole/"): [line.replace("bank", "mole") for line in lines]
        for name, lines in COARSE.items()
    }
    unpacked(folders["UNKNOWN"], unknown)
    (folders["BROKEN"] / "coarsewsd.tar.xz").write_bytes(b"no archive")
    folders["SETS"] = sets
    file = tmp_path / "a.json"
    arguments = [folders.get(one, one) for one in arguments]
    done = polyseme("evaluate", *arguments, "--json", file)
    assert (done.returncode, done.stdout) == (1, b"")
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("polyseme: ") and message in lines[0]
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coarsewsd", "SETS", "--split", "dev"], "--split applies only to WiC"),
        (["wic", "SETS", "--systems", "bert"], "the systems are most-frequent, static,"),
        (["wic", "SETS", "--systems", "mean", "--no-controls"], "not both"),
        (["wic", "SETS", "--systems", "most-frequent"], "no most frequent sense"),
        (["wic", "SETS", "--json", "nowhere/a.json"], "there is no such folder"),
        (["wic", "SETS", "--json", "/dev/null"], "is not a regular file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_reported_before_any_measurement(polyseme, sets, arguments, message):
    done = polyseme("evaluate", *[sets if one == "SETS" else one for one in arguments])
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in " ".join(done.stderr.decode().split())


def test_a_missing_extra_is_named(sets, models_dir):
    options = ("--models-dir", models_dir, "--model", "tiny")
    done = run_process("evaluate", "wic", sets, *options, python=without("sklearn"))
    assert (done.returncode, done.stdout) == (1, b"")
    error = done.stderr.decode().splitlines()[-1]
    assert error.startswith("polyseme: `polyseme evaluate` needs scikit-learn: ")
    assert error.endswith(" install 'polyseme[evaluate]'.")
