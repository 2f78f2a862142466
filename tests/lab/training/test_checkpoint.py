"""Checkpoints round-trip; damaged ones are rejected."""

import json

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.checkpoint import KEPT, load_checkpoint, save_checkpoint
from polyseme_lab.training.config import TrainingConfig

TENSORS = {
    "now.layers.0.key": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "one": np.float32(3),
}


def facts(step=7, **changes):
    return {
        "step": step,
        "seconds": 1.5,
        "recipe": TrainingConfig(steps=9),
        "material": {"model": {"vectors.npy": "a"}, "files": []},
        "history": [{"step": 0, "auc": None, "macro_f1": 50.0}],
        "best_score": None,
        "torch": "2",
        **changes,
    }


def test_a_checkpoint_round_trips(tmp_path):
    save_checkpoint(tmp_path / "new", TENSORS, **facts())
    kept, tensors = load_checkpoint(tmp_path / "new")
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].shape == tensor.shape
        np.testing.assert_array_equal(tensors[name], tensor)
    assert {name: getattr(kept, name) for name in facts()} == facts()


def test_the_newest_checkpoint_is_loaded_and_the_oldest_are_removed(tmp_path):
    for step in (1, 5, 10, 200):
        save_checkpoint(tmp_path, TENSORS, **facts(step))
    assert load_checkpoint(tmp_path)[0].step == 200
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 2 * KEPT
    assert "00000010.json" in names


def test_checkpoints_are_sorted_by_number(tmp_path):
    for step in (99_999_800, 99_999_900, 100_000_000):
        save_checkpoint(tmp_path, TENSORS, **facts(step))
    assert load_checkpoint(tmp_path)[0].step == 100_000_000
    assert {path.stem for path in tmp_path.iterdir()} == {"99999900", "100000000"}


def test_an_incomplete_checkpoint_is_ignored(tmp_path):
    save_checkpoint(tmp_path, TENSORS, **facts(1))
    (tmp_path / "00000002.safetensors").write_bytes(b"half")
    (tmp_path / ".writing-00000002.json").write_bytes(b"half")
    assert load_checkpoint(tmp_path)[0].step == 1
    save_checkpoint(tmp_path, TENSORS, **facts(3))
    left = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert left == {"00000001", "00000003"}


def test_other_files_in_the_folder_are_kept(tmp_path):
    for name in ("notes.json", "other.safetensors"):
        (tmp_path / name).write_text("mine")
    for step in range(5):
        save_checkpoint(tmp_path, TENSORS, **facts(step))
    assert (tmp_path / "notes.json").read_text() == "mine"
    assert (tmp_path / "other.safetensors").read_text() == "mine"


def damage_tensors(folder):
    path = folder / "00000007.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def change_json(folder, **changes):
    path = folder / "00000007.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    "damage",
    [
        damage_tensors,
        lambda folder: (folder / "00000007.safetensors").unlink(),
        lambda folder: (folder / "00000007.safetensors").write_bytes(b""),
        lambda folder: (folder / "00000007.json").write_bytes(b"{"),
        lambda folder: (folder / "00000007.json").write_bytes(b"\xff"),
        lambda folder: change_json(folder, step=-1),
        lambda folder: change_json(folder, more=1),
        lambda folder: change_json(folder, recipe={"steps": "many"}),
        lambda folder: change_json(folder, format="other"),
        lambda folder: change_json(folder, sha256="0" * 64),
    ],
)
def test_a_damaged_checkpoint_is_reported(tmp_path, damage):
    save_checkpoint(tmp_path, TENSORS, **facts())
    damage(tmp_path)
    with pytest.raises(CommandError, match="checkpoint 00000007 is damaged"):
        load_checkpoint(tmp_path)


def test_a_missing_checkpoint_is_reported(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(CommandError, match="no checkpoint"):
            load_checkpoint(folder)
