"""The command `polyseme train`."""

import json
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from polyseme.models.reader import read_model
from tests.cli.conftest import run, run_process, without
from tests.training.world import world_model, write_corpus, write_tags

pytestmark = pytest.mark.slow

QUICK = ("--steps", 4, "--groups", 4, "--occurrences", 6, "--score-every", 2)


@pytest.fixture
def place(tmp_path):
    """A folder with the files, and `models` in it."""
    (tmp_path / "models").mkdir()
    world_model(tmp_path / "models")
    write_tags(tmp_path / "tags.jsonl", count=300)
    write_corpus(tmp_path / "corpus.txt", count=300)
    return tmp_path


@pytest.fixture
def train(place):
    """The command in the folder of these files."""
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")
    return partial(runs, place)


def runs(place, *arguments, **variables):
    named = {name: place / name for name in ("tags.jsonl", "corpus.txt")}
    given = [named.get(one, one) for one in arguments]
    return run("train", "--model", "world", *given, models_dir=place / "models", **variables)


def sentence(done):
    """The error message in place of a traceback."""
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode().splitlines()[-1]


@pytest.mark.slow
def test_a_trained_model_is_written_next_to_its_start(train, place):
    done = train("--tags", "tags.jsonl", *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"world-trained  4 steps  1 layers  1 heads  held out: AUC")
    lines = done.stderr.decode().splitlines()
    assert all(line.startswith("polyseme: ") for line in lines)
    assert any("50%, step 2, loss" in line for line in lines)
    assert sorted(path.name for path in (place / "models").iterdir()) == ["world", "world-trained"]
    model = read_model(place / "models" / "world-trained")
    assert model.manifest.training["steps"] == 4
    encoded = run("encode", "--model", "world-trained", "theaa bankaa", models_dir=place / "models")
    assert json.loads(encoded.stdout)["usage"]["tokens"] == 2


def test_a_corpus_without_tags_is_enough(train, place):
    done = train("--corpus", "corpus.txt", "--output", "new", *QUICK, "--heads", 2)
    assert done.returncode == 0, done.stderr.decode()
    assert read_model(place / "models" / "new").manifest.heads == 2


def test_without_anything_to_learn_from_it_is_a_usage_error(train):
    done = train()
    assert done.returncode == 2
    assert b"use --tags, --corpus or both" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key-dropout", 1), "--key-dropout: "),
        (("--heads", 0), "--heads: "),
        (("--minutes", "nan"), "--minutes: "),
        (("--seed", -1), "--seed: "),
        (("--groups", 4096, "--occurrences", 1000), "groups · occurrences"),
        (("--norm", "between"), "'--norm'"),
        (("--tags", "nowhere"), "'--tags'"),
        (("--recipe", "tags.jsonl"), "--recipe: "),
    ],
)
def test_an_option_out_of_its_bounds_is_a_usage_error(train, options, said):
    done = train("--tags", "tags.jsonl", *options)
    assert done.returncode == 2
    assert said in done.stderr.decode().splitlines()[-1]


def test_an_existing_model_is_replaced_only_on_request(train, place):
    before = (place / "models" / "world" / "manifest.json").read_bytes()
    assert "--replace" in sentence(train("--tags", "tags.jsonl", "--output", "world", *QUICK))
    assert (place / "models" / "world" / "manifest.json").read_bytes() == before
    done = train("--tags", "tags.jsonl", "--output", "world", "--replace", *QUICK)
    assert done.returncode == 0, done.stderr.decode()


def test_a_bundled_model_is_never_replaced(train):
    done = train("--tags", "tags.jsonl", "--output", "wiki-en", "--replace", *QUICK)
    assert "A bundled model has this name" in sentence(done)


def test_a_symbolic_link_is_never_replaced(train, place):
    (place / "models" / "link").symlink_to(place / "models" / "world")
    done = train("--tags", "tags.jsonl", "--output", "link", "--replace", *QUICK)
    assert "The model's folder is a symbolic link" in sentence(done)


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden"])
def test_a_name_with_a_path_is_rejected(train, name):
    if name:
        assert "letters, digits" in sentence(train("--tags", "tags.jsonl", "--output", name))


def test_an_unknown_model_is_reported(place):
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    done = run("train", "--model", "none", "--tags", place / "tags.jsonl", *QUICK)
    assert "No model is named 'none'" in sentence(done)


def test_an_invalid_line_is_named_and_nothing_is_written(train, place):
    with (place / "tags.jsonl").open("a") as file:
        file.write("{\n")
    assert "tags.jsonl, line 301: " in sentence(train("--tags", "tags.jsonl", *QUICK))
    assert [path.name for path in (place / "models").iterdir()] == ["world"]


def test_missing_pytorch_is_reported_with_the_extra(place):
    arguments = ("train", "--model", "world", "--tags", place / "tags.jsonl")
    done = run_process(*arguments, models_dir=place / "models", python=without("torch"))
    assert "pip install 'polyseme[train]'" in sentence(done)


def test_a_recipe_of_a_file_is_followed_and_a_flag_wins(train, place):
    first = train("--tags", "tags.jsonl", "--output", "one", *QUICK, "--seed", 7)
    assert first.returncode == 0, first.stderr.decode()
    recipe = read_model(place / "models" / "one").manifest.training["recipe"]
    (place / "recipe.json").write_text(json.dumps(recipe))
    told = ("--recipe", place / "recipe.json", "--keep", "best")
    done = train("--tags", "tags.jsonl", "--output", "two", *told)
    assert done.returncode == 0, done.stderr.decode()
    again = read_model(place / "models" / "two").manifest.training["recipe"]
    assert again == {**recipe, "keep": "best"}


def test_an_unknown_field_of_a_recipe_is_named(train, place):
    (place / "recipe.json").write_text('{"speed": 3}')
    done = train("--tags", "tags.jsonl", "--recipe", place / "recipe.json")
    assert done.returncode == 2
    assert b"--speed: " in done.stderr


@pytest.mark.parametrize("form", ["words", "file"])
def test_excluded_words_are_recorded(train, place, form):
    words = "BANKAA, bankab"
    if form == "file":
        (place / "words").write_text("bankaa\n\nBankab\n")
        words = place / "words"
    done = train("--tags", "tags.jsonl", "--leave-out", words, *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    training = read_model(place / "models" / "world-trained").manifest.training
    assert training["recipe"]["leave_out"] == ["bankaa", "bankab"]


def test_a_model_without_weights_starts_from_the_closed_form(train, place):
    world_model(place / "models", weights=False)
    done = train("--tags", "tags.jsonl", *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    recipe = read_model(place / "models" / "world-trained").manifest.training["recipe"]
    assert recipe["init"] == "closed-form"


@pytest.mark.slow
def test_an_interrupted_training_resumes_to_the_same_weights(train, place):
    options = ("--tags", "tags.jsonl", "--groups", 4, "--score-every", 10, "--steps", 150)
    arguments = [
        *("train", "--model", "world", "--output", "two", "--checkpoints", place / "c"),
        *(place / "tags.jsonl" if one == "tags.jsonl" else one for one in options),
        *("--models-dir", place / "models"),
    ]
    command = [sys.executable, "-m", "polyseme", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    for _ in range(2400):
        if list(place.glob("c/*.json")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said.decode()
    assert not (place / "models" / "two").exists()
    assert b"Traceback" not in said
    for more in (
        ("--output", "one"),
        ("--output", "two", "--checkpoints", place / "c", "--resume"),
    ):
        done = train(*options, *more)
        assert done.returncode == 0, done.stderr.decode()
    one, two = (read_model(place / "models" / name).layers[0] for name in ("one", "two"))
    np.testing.assert_array_equal(one.key.weight, two.key.weight)
    np.testing.assert_array_equal(one.value.weight, two.value.weight)
