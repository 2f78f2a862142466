"""`polyseme evaluate` on tiny sets, and on the real ones if present."""

import json

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


def test_the_table_and_the_document_agree(polyseme, sets, tmp_path):
    for _ in range(2):  # the same bytes
        done = polyseme("evaluate", "wic", sets, "--json", tmp_path / "a.json")
        assert (done.returncode, done.stderr) == (0, b"")
        document, text = (tmp_path / "a.json").read_bytes(), done.stdout.decode()
        (tmp_path / "a.json").rename(tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == document
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


def test_the_model_and_its_controls_are_in_one_table(polyseme, sets):
    title, _, head, *rows = polyseme("evaluate", "coarsewsd", sets).stdout.decode().splitlines()
    assert title.startswith("CoarseWSD-20, 1 words, 4 test sentences")
    assert head.split() == ["accuracy", "macro-F1"]
    assert rows[0].split()[3:] == ["50.00", "[0.0,", "100.0]", "33.33", "[0.0,", "100.0]"]
    assert rows[6].startswith("contextual vector (tiny)")
    assert "1,000 bootstrap resamples of each word's test sentences (seed 1)" in rows[-2]


def test_only_the_requested_systems_are_measured(polyseme, sets, tmp_path):
    for task, options, names in (
        ("wic", ["--no-controls"], ["model"]),
        ("coarsewsd", ["--systems", "mean, most-frequent"], ["most-frequent", "mean"]),
    ):
        polyseme("evaluate", task, sets, *options, "--json", tmp_path / "a.json")
        assert list(json.loads((tmp_path / "a.json").read_bytes())["systems"]) == names


@pytest.mark.parametrize(
    ("folder", "options", "message"),
    [
        ("empty", ["coarsewsd"], "neither coarsewsd.tar.xz (or another .tar) nor"),
        ("sets", ["coarsewsd", "--model", "nobody"], "No model is named 'nobody'. Available: "),
        ("unknown", ["coarsewsd"], "has none of the words of the set"),
        ("sets", ["coarsewsd", "--split", "dev"], "--split applies only to WiC"),
        ("sets", ["wic", "--systems", "bert"], "the systems are most-frequent, static,"),
        ("sets", ["wic", "--systems", "mean", "--no-controls"], "not both"),
        ("sets", ["wic", "--systems", "most-frequent"], "no most frequent sense"),
        ("sets", ["wic", "--json", "nowhere/a.json"], "there is no such folder"),
        ("sets", ["wic", "--json", "/dev/null"], "is not a regular file"),
    ],
)
def test_an_impossible_measurement_is_reported(polyseme, sets, tmp_path, folder, options, message):
    (tmp_path / "empty").mkdir()
    unknown = {  # the vocabulary lacks `mole`
        name.replace("/bank/", "/mole/"): [line.replace("bank", "mole") for line in lines]
        for name, lines in COARSE.items()
    }
    unpacked(tmp_path / "unknown", unknown)
    task, *options = options
    path = sets if folder == "sets" else tmp_path / folder
    done = polyseme("evaluate", task, path, *options)
    of_model = folder != "sets" or "--model" in options
    assert (done.returncode, done.stdout) == (1 if of_model else 2, b"")
    assert message in " ".join(done.stderr.decode().split())
    assert not of_model or len(done.stderr.splitlines()) == 1


def test_a_missing_extra_is_named(sets, models_dir):
    options = ("--models-dir", models_dir, "--model", "tiny")
    done = run_process("evaluate", "wic", sets, *options, python=without("sklearn"))
    assert (done.returncode, done.stdout) == (1, b"")
    error = done.stderr.decode().splitlines()[-1]
    assert error.startswith("polyseme: `polyseme evaluate` needs scikit-learn: ")
    assert error.endswith(" install 'polyseme[evaluate]'.")
