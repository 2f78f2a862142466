"""docs/training.md: its commands run, its data can be read, its options exist."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme
from polyseme_lab.commands.train import train
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.corpus import read_tagged
from tests.lab.training.world import world_model, write_corpus, write_tags
from tests.pages import section

PAGE = section("training.md", "Training")
COMMANDS = [
    line.strip()
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if not re.match(r"polyseme: |\w+  ", line)
]


@pytest.mark.slow
def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")
    monkeypatch.chdir(tmp_path)
    world_model(tmp_path)
    write_tags(Path("senses.jsonl"), count=200)
    write_corpus(Path("text.txt"), count=300)
    assert len(COMMANDS) == 8
    for command in COMMANDS:
        small = command.replace("--model wiki-en", "--model world")
        small = small.replace("--steps 400", "--steps 2").replace("--steps 440", "--steps 3")
        words = shlex.split(re.sub(r"--minutes \d+", "--minutes 0.001", small))
        assert words[:2] == ["polyseme", "train"]
        if "--steps" not in words and "--minutes" not in words:
            words += ["--steps", "2"]
        done = CliRunner().invoke(polyseme, [*words[1:], "--models-dir", str(tmp_path)])
        assert (done.exit_code, done.exception) == (0, None), f"{command}\n{done.output}"


def test_the_tagged_sentences_of_the_page_can_be_read(tmp_path):
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tags.jsonl").write_text(block)
    found = list(read_tagged(tmp_path / "tags.jsonl"))
    assert [(one.tokens[tag.token], tag.sense) for one in found for tag in one.tags] == [
        ("plant", "flora"),
        ("plant", "factory"),
    ]


def test_the_page_has_the_options_of_the_command():
    options = {name for option in train.params for name in option.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert named == options


def test_every_field_of_the_recipe_has_an_option_or_is_on_the_page():
    names = {option.name for option in train.params}
    rest = (set(TrainingConfig.model_fields) | set(HiddenWordsConfig.model_fields)) - names
    assert rest == {
        *("embedding_anchor", "embedding_rate", "split", "fewest"),
        *("activation", "warmup", "weight_decay", "average", "precision", "held_out_sentences"),
    }
    assert all(f"`{name}`" in PAGE for name in rest)
