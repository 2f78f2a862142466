"""`polyseme evaluate` on tiny sets."""

import json

import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from polyseme_lab.evaluation.systems import NAMES
from tests.cli.conftest import models_dir, polyseme, run_process, without
from tests.lab.evaluation.sets import COARSE, WIC, archived, unpacked

__all__ = ["models_dir", "polyseme"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder with two tiny evaluation sets."""
    folder = tmp_path_factory.mktemp("sets")
    archived(folder / "coarsewsd.tar.xz", COARSE)
    unpacked(folder, WIC)
    return folder


TEXTS = {
    "wic": ("WiC, 3 pairs of dev", "1,000 bootstrap resamples of the pairs (seed 1)"),
    "coarsewsd": (
        "CoarseWSD-20, 1 words, 4 test sentences",
        "1,000 bootstrap resamples of each word's test sentences (seed 1)",
    ),
}


@pytest.mark.parametrize(
    ("task", "options", "names"),
    [
        ("wic", [], NAMES),
        ("wic", ["--no-controls"], ["model"]),
        ("coarsewsd", [], ["most-frequent", *NAMES]),
        ("coarsewsd", ["--systems", "mean, most-frequent"], ["most-frequent", "mean"]),
    ],
)
def test_the_table_and_the_document_agree(polyseme, sets, tmp_path, task, options, names):
    documents = []
    for _ in range(2):  # the same bytes
        done = polyseme("evaluate", task, sets, *options, "--json", tmp_path / "a.json")
        assert (done.returncode, done.stderr) == (0, b"")
        documents.append((tmp_path / "a.json").read_bytes())
    assert documents[0] == documents[1]
    found, text = json.loads(documents[0]), done.stdout.decode()
    assert (found["task"], found["model"], list(found["systems"])) == (task, "tiny", list(names))
    for one in found["systems"].values():
        assert f"{one['title']} " in text
        assert f"{one['accuracy']['value']:.2f}" in text
    assert ("contextual vector (tiny)" in text) == ("model" in names)
    assert all(part in text for part in TEXTS[task])
    assert found["versions"].keys() >= {"numpy", "scikit-learn", "scipy"}
    assert str(sets) not in text + documents[0].decode()


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
