"""The statements and commands for `polyseme evaluate` in docs/training.md."""

import json
import lzma
import re
import shlex

import click
import pytest

from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED
from polyseme_lab.commands.evaluate import evaluate
from polyseme_lab.evaluation.systems import MINILM, MOST_FREQUENT, NAMES
from tests.cli.conftest import run
from tests.conftest import PYTHONPATH
from tests.lab.evaluation.sets import COARSE, WIC, unpacked
from tests.pages import section
from tests.tiny import write_tiny

pytestmark = pytest.mark.slow

PAGE = section("training.md", "Evaluation")
COMMANDS = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the tiny sets in `sets`, and models in `models`."""
    folder = tmp_path_factory.mktemp("documented")
    unpacked(folder / "sets", {**COARSE, **WIC})
    tags = "river\tNOUN\nbank\tNOUN\n\ndid\tVERB\n\n" * 20
    for split in ("train", "dev"):
        (folder / "sets" / "pos").mkdir(exist_ok=True)
        (folder / "sets" / "pos" / f"{split}.tsv").write_text(tags)
    (folder / "sets" / "sts").mkdir()
    pairs = "5\triver bank\triver bank\n2\triver bank\triver end\n0\tmoney\tdid\n"
    (folder / "sets" / "sts" / "dev.tsv").write_text(pairs)
    occurrences = [
        {"sense": sense, "index": 1, "tokens": [("river", "money")[sense], "bank", "end"]}
        for sense in (0, 1) * 4
    ]
    line = json.dumps({"words": ["bank", "apple"], "occurrences": occurrences})
    (folder / "pseudowords.jsonl.xz").write_bytes(lzma.compress(line.encode()))
    for name in ("tiny", "glove"):
        write_tiny(folder / "models" / name)
    (folder / "models" / BUNDLED).symlink_to(bundled_models() / BUNDLED)
    return folder


def test_every_option_and_every_system_is_documented():
    for option in evaluate.params:
        if isinstance(option, click.Option) and option.name != "model":
            assert any(flag in PAGE for flag in (*option.opts, *option.secondary_opts)), option.name
    for name in (MOST_FREQUENT, *NAMES, MINILM):
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_runs(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    program, *arguments = shlex.split(command)
    assert program == "polyseme"
    done = run(*arguments, models_dir=folder / "models", POLYSEME_MODEL="tiny")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"contextual vector" in done.stdout
    for name in re.findall(r"--json (\S+)", command):
        assert (folder / name).stat().st_size
