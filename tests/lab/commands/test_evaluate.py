"""`polyseme evaluate` on tiny sets, and on the real ones if present."""

import json
import os
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")
pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from polyseme_lab.commands import evaluate
from tests.cli.conftest import run, run_process, without
from tests.lab.evaluation.sets import COARSE, WIC, WORDSIM, archived, unpacked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data")) / "eval"


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder with four tiny evaluation sets."""
    folder = tmp_path_factory.mktemp("sets")
    archived(folder / "coarsewsd.tar.xz", COARSE)
    unpacked(folder, WIC)
    (folder / "wordsim353.tsv").write_text(WORDSIM)
    (folder / "simlex999.txt").write_text(WORDSIM)
    return folder


@pytest.fixture(scope="module")
def measured(polyseme, sets, tmp_path_factory):
    """A function that returns the table, the JSON and the plot of a task; each runs once."""
    folder = tmp_path_factory.mktemp("measured")

    @cache
    def measure(task, number=1):
        files = [folder / f"{task}-{number}.{ending}" for ending in ("json", "svg")]
        done = polyseme("evaluate", task, sets, "--json", files[0], "--plot", files[1])
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode(), *(file.read_bytes() for file in files)

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
    assert rows[8].split() == ["senses", "train", "test", "accuracy", "macro-F1"]
    assert rows[9].split()[:4] == ["bank", "2", "3", "4"]
    assert "1,000 bootstrap resamples of each word's test sentences (seed 1)" in rows[-2]


def test_the_same_command_gives_the_same_bytes(measured):
    assert measured("wic") == measured("wic", 2)
    assert measured("wic")[2].startswith(b"<?xml")


def test_the_document_agrees_with_the_table(measured, sets):
    text, document, _ = measured("wic")
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


def test_skipped_pairs_of_similarity_are_counted(measured):
    text, document, _ = measured("similarity")
    assert "static vector (tiny)" in text
    assert "WordSim-353: 10 pairs; 1 more were skipped" in text
    found = json.loads(document)
    assert found["lacking"] == {"WordSim-353": 1, "SimLex-999": 1}
    figures = found["systems"]["static"]
    assert figures["WordSim-353"] == figures["SimLex-999"]


def test_only_the_requested_systems_are_measured(polyseme, sets, tmp_path):
    done = polyseme("evaluate", "wic", sets, "--no-controls", "--json", tmp_path / "a.json")
    assert list(json.loads((tmp_path / "a.json").read_bytes())["systems"]) == ["model"]
    names = "no-association,most-frequent, mean"
    done = polyseme(
        "evaluate", "coarsewsd", sets, "--systems", names, "--json", tmp_path / "b.json"
    )
    assert done.returncode == 0
    found = json.loads((tmp_path / "b.json").read_bytes())["systems"]
    assert list(found) == ["most-frequent", "mean", "no-association"]


def test_a_service_is_measured_with_the_key_of_the_environment(
    polyseme, measured, serve, models_dir, sets, tmp_path
):
    client = serve(models_dir=models_dir, model="tiny", workers=1, api_keys="secret")
    options = ("--url", client.base_url, "--json", tmp_path / "http.json")
    done = polyseme("evaluate", "coarsewsd", sets, *options, POLYSEME_API_KEY="secret")
    assert (done.returncode, done.stderr) == (0, b"")
    local, http = (
        json.loads(measured("coarsewsd")[1]),
        json.loads((tmp_path / "http.json").read_bytes()),
    )
    # Systems that need the weights are absent.
    assert len(http["systems"]) == 5
    assert http["systems"].items() <= local["systems"].items()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("1\tbank\triver\n2\tmoney\tend\n")
    for arguments in (["wic", sets], ["sentences", pairs]):
        done = polyseme("evaluate", *arguments, "--url", client.base_url)
        assert (done.returncode, done.stdout) == (1, b"")
        message = "The key is missing or wrong. POLYSEME_API_KEY sets the key."
        assert done.stderr.decode() == f"polyseme: The service responds with 401: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coarsewsd", "EMPTY"], "neither coarsewsd.tar.xz (or another .tar) nor"),
        (["coarsewsd", "SETS", "--model", "nobody"], "No model is named 'nobody'. Available: "),
        (["coarsewsd", "UNKNOWN"], "has none of the words of the set"),
        (["coarsewsd", "BROKEN"], "coarsewsd.tar.xz cannot be read"),
        (["wic", "SETS", "--url", "http://127.0.0.1:1"], "The service does not respond"),
        (["wic", "SETS", "--url", "127.0.0.1:8000"], "must look like http://127.0.0.1:8000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_measurement_is_reported_in_one_sentence_without_a_file(
    polyseme, sets, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.setattr(evaluate, "_RETRIES", 0)
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
    files = tmp_path / "a.json", tmp_path / "a.png"
    arguments = [folders.get(one, one) for one in arguments]
    done = polyseme("evaluate", *arguments, "--json", files[0], "--plot", files[1])
    assert (done.returncode, done.stdout) == (1, b"")
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("polyseme: ") and message in lines[0]
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coarsewsd", "SETS", "--split", "dev"], "--split applies only to WiC"),
        (["wic", "SETS", "--systems", "bert"], "the systems are most-frequent, static,"),
        (["wic", "SETS", "--systems", "mean", "--no-controls"], "not both"),
        (["wic", "SETS", "--systems", "most-frequent"], "no most frequent sense"),
        (["similarity", "SETS", "--systems", "mean"], "static vectors only"),
        (["similarity", "SETS", "--compare"], "static vectors only"),
        (["wic", "SETS", "--plot", "picture.pdf"], "end in .png or .svg"),
        (["wic", "SETS", "--json", "nowhere/a.json"], "there is no such folder"),
        (["wic", "SETS", "--json", "/dev/null"], "is not a regular file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_reported_before_any_measurement(polyseme, sets, arguments, message):
    done = polyseme("evaluate", *[sets if one == "SETS" else one for one in arguments])
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in " ".join(done.stderr.decode().split())


@pytest.mark.parametrize(
    ("package", "options", "message", "extra"),
    [
        ("sklearn", (), "`polyseme evaluate` needs sklearn: ", "evaluate"),
        ("transformers", ("--compare",), "all-MiniLM-L6-v2 needs packages: ", "compare"),
    ],
)
def test_a_missing_extra_is_named(sets, models_dir, package, options, message, extra):
    options = (*options, "--models-dir", models_dir, "--model", "tiny")
    done = run_process("evaluate", "wic", sets, *options, python=without(package))
    assert (done.returncode, done.stdout) == (1, b"")
    error = done.stderr.decode().splitlines()[-1]
    assert error.startswith(f"polyseme: {message}")
    assert error.endswith(f" install 'polyseme[{extra}]'.")


@pytest.mark.skipif(not DATA.exists(), reason="needs the evaluation sets (POLYSEME_TEST_DATA)")
def test_the_real_sets_are_measured(tmp_path):
    file = tmp_path / "a.json"
    done = run("evaluate", "coarsewsd", DATA, "--systems", "most-frequent", "--json", file)
    assert done.returncode == 0
    assert "BERT-base, nearest sense centroid (published)" in done.stdout.decode()
    found = json.loads(file.read_bytes())
    assert (len(found["words"]), found["sentences"], found["lacking"]) == (10, 5921, [])
    done = run("evaluate", "wic", DATA, "--systems", "static", "--json", file)
    # Static vectors do not depend on the sense, so their accuracy is at chance.
    assert 45 < json.loads(file.read_bytes())["systems"]["static"]["accuracy"]["value"] < 55
    assert "638 pairs of dev" in done.stdout.decode()
    done = run("evaluate", "similarity", DATA, "--json", file)
    found = json.loads(file.read_bytes())["systems"]["static"]
    assert found["WordSim-353"]["value"] > 60 and found["SimLex-999"]["value"] > 25
