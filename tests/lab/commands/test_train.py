"""The command `polyseme train`."""

import json
import re

import numpy as np
import pytest

from polyseme.importing.weights import in_closed_form
from polyseme.models.reader import read_model
from polyseme_lab.commands.train import TrainingProgress, recipe_fields
from tests.cli.conftest import run, run_process, without
from tests.lab.training.world import world_model, write_corpus, write_tags
from tests.test_terminal import clock

__all__ = ["clock"]

QUICK = ("--steps", 4, "--groups", 4, "--occurrences", 6, "--score-every", 2)


@pytest.fixture
def folder(tmp_path):
    """A folder with tags, a corpus, and a folder of models."""
    (tmp_path / "models").mkdir()
    world_model(tmp_path / "models")
    write_tags(tmp_path / "tags.jsonl", count=300)
    write_corpus(tmp_path / "corpus.txt", count=300)
    return tmp_path


@pytest.fixture
def train(folder):
    """`polyseme train` with these files; their names stand for their paths."""
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")

    def train(*arguments):
        files = {name: folder / name for name in ("tags.jsonl", "corpus.txt")}
        arguments = [files.get(one, one) for one in arguments]
        return run("train", "--model", "world", *arguments, models_dir=folder / "models")

    return train


def error_of(done):
    """The last line of a command that failed."""
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "need"), [(40, "two senses of 8 tags each"), (0, "a larger")])
def test_the_reason_for_absent_scores_is_written(train, folder, count, need):
    write_tags(folder / "tags.jsonl", count=count)
    write_corpus(folder / "corpus.txt", count=150)
    files = ("--tags", "tags.jsonl") if count else ("--corpus", "corpus.txt", "--held-out", 0)
    done = train(*files, *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.endswith("AUC – to –, macro-F1 – to –\n".encode())
    reason = "Warning: no scores are computed (–), because they need "
    assert re.search(re.escape(reason) + f".*{need}", done.stderr.decode())


@pytest.mark.slow
def test_a_trained_model_is_written_beside_its_start_or_in_its_place(train, folder):
    done = train("--tags", "tags.jsonl", *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"world-trained  4 steps  1 layer  1 head  held out: AUC")
    lines = done.stderr.decode().splitlines()
    assert all(line.startswith("polyseme: ") for line in lines)
    assert any("50%, step 2, loss" in line for line in lines)
    assert lines[-1].startswith("polyseme: There is too little held-out text to tell whether")
    assert sorted(path.name for path in (folder / "models").iterdir()) == ["world", "world-trained"]
    assert read_model(folder / "models" / "world-trained").manifest.training["steps"] == 4
    # An existing model is replaced only on request.
    manifest = folder / "models" / "world" / "manifest.json"
    before = manifest.read_bytes()
    assert "--replace" in error_of(train(*TAGS, "--output", "world", *QUICK))
    assert manifest.read_bytes() == before
    done = train(*TAGS, "--output", "world", "--replace", *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    assert manifest.read_bytes() != before


HIDDEN_WORDS = (
    *("--objective", "hidden-words", "--layers", 3, "--heads", 1, "--feed-forward", 9),
    *("--sentences", 8, "--negatives", 20, "--steps", 4, "--score-every", 2),
)


TAGS, CORPUS = ("--tags", "tags.jsonl"), ("--corpus", "corpus.txt", *HIDDEN_WORDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ({}, (), "There is no training data; use --tags, --corpus or both."),
        ({}, (*TAGS, "--key-dropout", 1), "--key-dropout: "),
        ({}, (*TAGS, "--heads", 2), "--heads: does not apply to the objective contrastive."),
        ({}, (*TAGS, "--minutes", "nan"), "--minutes: "),
        ({}, (*TAGS, "--groups", 4096, "--occurrences", 1000), "groups · occurrences"),
        ({}, (*TAGS, "--keep", "worst"), "'--keep'"),
        ({}, ("--tags", "nowhere"), "'--tags'"),
        ({}, (*TAGS, "--recipe", "tags.jsonl"), "--recipe: the file is not a JSON object."),
        ({"speed": 3}, TAGS, "--recipe: 'speed' is not a known field."),
        ({"window": 0}, TAGS, "--recipe: 'window' must be at least 1."),
        ({"window": 1}, (*TAGS, "--window", 0), "--window: must be at least 1."),
        ({}, (*CORPUS, "--mix", 1), "--mix: does not apply to the objective hidden-words."),
        ({}, (*CORPUS, *TAGS), "--tags: does not apply to the objective hidden-words."),
        ({"groups": 3}, CORPUS, "--recipe: 'groups' is not a known field."),
    ],
)
def test_invalid_options_are_usage_errors(train, folder, recipe, options, message):
    if recipe:
        (folder / "recipe.json").write_text(json.dumps(recipe))
        options = (*options, "--recipe", folder / "recipe.json")
    done = train(*options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wiki-en", "A bundled model has this name"),
        ("link", "The model's folder is a symbolic link"),
        ("../x", "; --output sets it."),
        ("", "; --output sets it."),
    ],
)
def test_a_name_that_cannot_be_written_is_rejected(train, folder, name, message):
    (folder / "models" / "link").symlink_to(folder / "models" / "world")
    assert message in error_of(train(*TAGS, "--output", name, "--replace", *QUICK))


@pytest.mark.slow
def test_missing_pytorch_is_reported_with_the_extra(folder):
    arguments = ("train", "--model", "world", "--tags", folder / "tags.jsonl")
    done = run_process(*arguments, models_dir=folder / "models", python=without("torch"))
    assert "pip install 'polyseme[train]'" in error_of(done)


@pytest.mark.slow
def test_a_recipe_is_read_from_a_file_and_flags_override_it(train, folder):
    first = train("--output", "one", *CORPUS)
    assert first.returncode == 0, first.stderr.decode()
    summary = rb"one  4 steps  3 layers  1 head  held out: loss \d\.\d\d to \d\.\d\d, named "
    assert re.match(summary, first.stdout)
    assert re.search(rb"50%, step 2, loss .*, held out: loss .*, named ", first.stderr)
    recipe = read_model(folder / "models" / "one").manifest.training["recipe"]
    (folder / "recipe.json").write_text(json.dumps(recipe))  # the objective is a field too
    done = train(*CORPUS[:2], "--recipe", folder / "recipe.json", "--output", "two", "--seed", 7)
    assert done.returncode == 0, done.stderr.decode()
    two = read_model(folder / "models" / "two")
    assert two.manifest.training["recipe"] == {**recipe, "seed": 7}
    assert len(two.layers) == 3


def test_excluded_words_are_options_or_lines_of_a_file(folder):
    (folder / "words").write_text("bankaa\n\nBankab\n")
    for words in ("bankaa, Bankab", str(folder / "words")):
        fields = recipe_fields({"recipe_file": None, "leave_out": words})
        assert fields["leave_out"] == ("bankaa", "Bankab")


@pytest.mark.slow
def test_a_model_without_weights_starts_from_the_closed_form(train, folder):
    world_model(folder / "models", weights=False, languages=["de"])
    done = train("--tags", "tags.jsonl", *QUICK)
    assert done.returncode == 0, done.stderr.decode()
    start, trained = (read_model(folder / "models" / n) for n in ("world", "world-trained"))
    assert not start.manifest.tensors
    assert trained.manifest.training["recipe"]["leave_out"] == []  # the default is English
    expected = in_closed_form(start.rows, None, by_rank=False).layers[0].value.weight
    found = trained.layers[0].value.weight
    assert 0 < np.abs(found - expected).max() < 0.1


def test_without_a_terminal_lines_are_throttled_and_scores_are_not(clock, capsys):
    with TrainingProgress() as training:
        with training.stage("reading text.txt", 5_000_000) as bar:
            for _ in range(5):
                clock[0] += 4
                bar.advance(1_000_000)
        training.step(0, {"step": 0, "auc": 61.234, "macro_f1": None})
        for step in range(1, 7):
            clock[0] += 4
            training.step(step / 6, {"step": step, "loss": 2.5 + step / 1000})
        training.step(1, {"step": 1007, "loss": 2.4, "auc": 62, "macro_f1": 70.0})
    with TrainingProgress() as training:  # a resumed one has no scores before the first evaluation
        training.step(0.4, {"step": 4, "loss": 2.5})
        clock[0] += 10
        training.step(0.5, {"step": 5, "loss": 2.5})
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading text.txt, 3 of 5 MB",
        "polyseme: training, 0%, step 0, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 50%, step 3, loss 2.503, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 6, loss 2.506, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 1,007, loss 2.400, held out: AUC 62.00, macro-F1 70.00",
        "polyseme: training, 50%, step 5, loss 2.500",
    ]
