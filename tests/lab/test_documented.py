"""docs/training.md: its commands run, its data can be read, its options exist."""

import json
import lzma
import re
import shlex
from pathlib import Path

import click
import pytest

from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED
from polyseme_lab.commands.evaluate import evaluate
from polyseme_lab.commands.train import train
from polyseme_lab.evaluation.systems import MINILM, MOST_FREQUENT, NAMES
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.corpus import read_tagged
from tests.cli.conftest import run
from tests.lab.evaluation.sets import COARSE, WIC, unpacked
from tests.lab.evaluation.test_downstream import pair_line
from tests.lab.training.world import world_model, write_corpus, write_tags
from tests.pages import section
from tests.tiny import write_tiny

TRAINING, EVALUATION = (section("training.md", name) for name in ("Training", "Evaluation"))


def commands_of(page):
    """The arguments of each `polyseme` command of the blocks of a page."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = "\n".join(blocks).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("polyseme ")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with the files of the commands and models in `models`."""
    monkeypatch.chdir(tmp_path)
    write_tags(Path("senses.jsonl"), count=200)
    write_corpus(Path("text.txt"), count=300)
    unpacked(tmp_path / "sets", {**COARSE, **WIC})
    for split in ("train", "dev"):
        Path("sets/pos").mkdir(exist_ok=True)
        Path(f"sets/pos/{split}.tsv").write_text("river\tNOUN\nbank\tNOUN\n\ndid\tVERB\n\n" * 20)
    Path("sets/sts").mkdir()
    pairs = "5\triver bank\triver bank\n2\triver bank\triver end\n0\tmoney\tdid\n"
    Path("sets/sts/dev.tsv").write_text(pairs)
    line = pair_line(["bank", "apple"], [0, 1] * 4)
    Path("pseudowords.jsonl.xz").write_bytes(lzma.compress(line.encode()))
    for name in ("tiny", "glove"):
        write_tiny(tmp_path / "models" / name)
    world_model(tmp_path / "models")
    Path("models", BUNDLED).symlink_to(bundled_models() / BUNDLED)
    return tmp_path


@pytest.mark.slow
def test_every_command_for_training_runs(folder):
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")
    changes = {"wiki-en": "world", "400": "2", "440": "3", "10": "0.001", "60": "0.001"}
    commands = [command for command in commands_of(TRAINING) if command[0] == "train"]
    assert len(commands) == 8
    for command in commands:
        words = [changes.get(word, word) for word in command]
        if "--steps" not in words and "--minutes" not in words:
            words += ["--steps", "2"]
        done = run(*words, models_dir=folder / "models")
        assert done.returncode == 0, f"{command}\n{done.stderr.decode()}"


@pytest.mark.slow
@pytest.mark.parametrize("command", commands_of(EVALUATION), ids=" ".join)
def test_a_command_for_evaluation_runs(folder, command):
    done = run(*command, models_dir=folder / "models", POLYSEME_MODEL="tiny")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"contextual vector" in done.stdout
    if "--json" in command:
        assert json.loads(Path(command[-1]).read_bytes())["task"] == command[1]


def test_the_tagged_sentences_of_the_page_can_be_read(tmp_path):
    [block] = re.findall(r"```json\n(.*?)```", TRAINING, re.DOTALL)
    (tmp_path / "tags.jsonl").write_text(block)
    first, second = read_tagged(tmp_path / "tags.jsonl")
    found = [(one.tokens[tag.token], tag.sense) for one in (first, second) for tag in one.tags]
    assert found == [("plant", "flora"), ("plant", "factory")]


def test_every_option_field_and_system_is_documented():
    options = {name for option in train.params for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TRAINING)) == options
    names = {option.name for option in train.params}
    rest = (set(TrainingConfig.model_fields) | set(HiddenWordsConfig.model_fields)) - names
    assert len(rest) == 10
    assert all(f"`{name}`" in TRAINING for name in rest)
    for option in evaluate.params:
        if isinstance(option, click.Option) and option.name != "model":
            flags = (*option.opts, *option.secondary_opts)
            assert any(flag in EVALUATION for flag in flags), option.name
    assert all(f"`{name}`" in EVALUATION for name in (MOST_FREQUENT, *NAMES, MINILM))
