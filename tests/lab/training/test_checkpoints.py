"""Checkpoints: damaged ones are rejected, and resumed trainings are reproducible."""

import math

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme.progress import SILENT
from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.run import (
    CHECKPOINT,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    write_trained_model,
)
from polyseme_lab.training.stack import StackTrainer
from polyseme_lab.training.trainer import Trainer, TrainerState
from tests.lab.training.runs import digests, run, training

TENSORS = {
    "now.layers.0.key": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "one": np.float32(3),
}


def document(step=7):
    history = [{"step": 0, "auc": None, "macro_f1": 50.0}]
    return Checkpoint(
        recipe=TrainingConfig(steps=9),
        material={"model": {"vectors.npy": "a"}, "files": []},
        state=TrainerState(step=step, seconds=1.5, history=history),
    )


def test_a_checkpoint_round_trips_and_replaces_the_previous_one(tmp_path):
    folder = tmp_path / "new"
    for step in (1, 7):
        save_checkpoint(folder, TENSORS, document(step))
    (folder / ".writing-half").write_bytes(b"half")
    loaded, tensors = load_checkpoint(folder)
    assert loaded == document()
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].shape == tensor.shape
        np.testing.assert_array_equal(tensors[name], tensor)
    assert {path.name for path in folder.iterdir()} == {CHECKPOINT, ".writing-half"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: data.replace(b'"checkpoint"', b'"checkpainted"'[:12]),
        lambda data: data.replace(b"contrastive", b"contrastivE"),
        lambda data: data.replace(b'\\"step\\":7', b'\\"step\\":x'),
        lambda data: data.replace(b"F32", b"F23"),
    ],
)
def test_a_damaged_checkpoint_is_reported(tmp_path, damage):
    save_checkpoint(tmp_path, TENSORS, document())
    path = tmp_path / CHECKPOINT
    data = path.read_bytes()
    path.write_bytes(damage(data))
    assert path.read_bytes() != data
    with pytest.raises(CommandError, match="checkpoint is damaged"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"tune_embeddings": True, "keep": "best", "seed": 2}, {"objective": "hidden-words"}],
)
def test_a_resumed_training_gives_the_same_files(world, tags, corpus, tmp_path, options):
    place, options = tmp_path / "checkpoints", {"corpus": corpus, **options}
    if "objective" not in options:
        options["tags"] = tags
    whole, metrics = run(world, **options)

    def interrupt(_, metrics):
        if metrics["step"] == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(world, checkpoints=place, **options).run(SILENT, interrupt)
    assert load_checkpoint(place)[0].state.step == 4
    resumed, rest = run(world, checkpoints=place, resume=True, **options)
    assert [one["step"] for one in rest] == [5, 6, 7, 8]
    # The last loss of hidden words is a mean since the last scores.
    assert [one["loss"] for one in rest[:-1]] == [one["loss"] for one in metrics[5:-1]]
    for folder, trained in (("whole", whole), ("resumed", resumed)):
        write_trained_model(tmp_path / folder, world, trained, replacing=False)
    assert digests(tmp_path / "whole") == digests(tmp_path / "resumed")
    for key in ("held_out", "tokens"):
        assert whole.facts.get(key) == resumed.facts.get(key)
    # A finished training resumes without a step.
    assert run(world, checkpoints=place, resume=True, **options)[1] == []


def test_a_checkpoint_of_another_run_is_rejected(world, both, corpus, tmp_path):
    place = tmp_path / "c"
    run(world, checkpoints=place, steps=0, **both)
    resumed = {"checkpoints": place, "resume": True, "steps": 0}
    with pytest.raises(CommandError, match=r"another recipe \(different: seed\)"):
        run(world, **both, **resumed, seed=2)
    other = "contrastive" if "objective" in both else "hidden-words"
    with pytest.raises(CommandError, match="another recipe"):
        run(world, corpus=corpus, **resumed, objective=other)
    with pytest.raises(CommandError, match="already has a checkpoint"):
        run(world, checkpoints=place, **both, seed=2)
    corpus.write_text(corpus.read_text() * 2)
    with pytest.raises(CommandError, match="another model or other training files"):
        run(world, **both, **resumed)


def test_resuming_needs_a_checkpoint(world, tags, tmp_path):
    with pytest.raises(CommandError, match="--resume requires --checkpoints"):
        run(world, tags=tags, resume=True)
    with pytest.raises(CommandError, match="There is no checkpoint"):
        run(world, tags=tags, checkpoints=tmp_path / "none", resume=True)


def test_training_ends_after_the_configured_minutes(world, both):
    trained, _ = run(world, **both, steps=None, minutes=0.005)
    assert trained.facts["steps"] >= 1


def test_a_non_finite_loss_is_reported(world, both, monkeypatch):
    def loss(trainer, *_):
        return math.nan * trainer.tensors["layers.0.key"].sum()

    monkeypatch.setattr(StackTrainer if "objective" in both else Trainer, "_loss", loss)
    with pytest.raises(CommandError, match="smaller --learning-rate"):
        run(world, **both)
