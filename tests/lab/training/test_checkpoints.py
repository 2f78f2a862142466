"""Checkpoints: damaged ones are rejected, and resumed trainings are reproducible."""

import json
import math

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.config import TrainingConfig
from tests.lab.training.runs import digests, run, run_of
from tests.lab.training.world import vectors, world_model

pytest.importorskip("torch", reason="the extra [train] is not installed")
pytest.importorskip("sklearn", reason="the extra [train] is not installed")

from polyseme_lab.training.network import Network
from polyseme_lab.training.run import (
    KEPT,
    TOKENS,
    checkpoint_names,
    load_checkpoint,
    save_checkpoint,
    write_trained_model,
)
from polyseme_lab.training.stack import StackTrainer
from polyseme_lab.training.trainer import Trainer

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


@pytest.mark.parametrize("steps", [(1, 5, 10, 200), (99_999_800, 99_999_900, 100_000_000)])
def test_the_newest_checkpoint_is_loaded_and_the_oldest_are_removed(tmp_path, steps):
    others = {"notes.json", "other.safetensors"}
    for name in others:
        (tmp_path / name).write_text("mine")
    for step in steps:
        save_checkpoint(tmp_path, TENSORS, **facts(step))
    assert load_checkpoint(tmp_path)[0].step == steps[-1]
    kept = {f"{step:08}.{kind}" for step in steps[-KEPT:] for kind in ("json", "safetensors")}
    assert {path.name for path in tmp_path.iterdir()} == kept | others
    assert {(tmp_path / name).read_text() for name in others} == {"mine"}


def test_an_incomplete_checkpoint_is_ignored(tmp_path):
    save_checkpoint(tmp_path, TENSORS, **facts(1))
    (tmp_path / "00000002.safetensors").write_bytes(b"half")
    (tmp_path / ".writing-00000002.json").write_bytes(b"half")
    assert load_checkpoint(tmp_path)[0].step == 1
    save_checkpoint(tmp_path, TENSORS, **facts(3))
    left = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert left == {"00000001", "00000003"}


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


def trainer_of(options):
    return StackTrainer if "objective" in options else Trainer


@pytest.mark.slow
@pytest.mark.parametrize("init", ["model", "random"])
def test_the_same_recipe_gives_the_same_files(world, tags, corpus, tmp_path, init):
    for name in ("one", "two"):
        trained, _ = run(world, tags=tags, corpus=corpus, init=init)
        write_trained_model(tmp_path / name, world, trained, replacing=False)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


@pytest.mark.parametrize(
    "more",
    [
        {},
        pytest.param({"seed": 2}, marks=pytest.mark.slow),
        pytest.param({"tune_embeddings": True}, marks=pytest.mark.slow),
        pytest.param({"keep": "best"}, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_training_gives_the_same_files(world, both, tmp_path, monkeypatch, more):
    options = {**both, **more} if "objective" not in both else both
    whole, metrics = run(world, **options)
    place = tmp_path / "checkpoints"

    class Interrupted(trainer_of(both)):
        def steps(self):
            for step in super().steps():
                if step["step"] == 6:
                    raise KeyboardInterrupt
                yield step

    with pytest.raises(KeyboardInterrupt):
        run_of(Interrupted, world, monkeypatch, checkpoints=place, **options)
    assert load_checkpoint(place)[0].step == 4
    with monkeypatch.context() as patch:
        patch.setattr("polyseme_lab.training.hidden_words.tokenize", None)  # the tokens are there
        resumed, rest = run(world, checkpoints=place, resume=True, **options)
    assert [one["step"] for one in rest] == [5, 6, 7, 8]
    # The last loss of hidden words is a mean since the last scores.
    assert [one["loss"] for one in rest[:-1]] == [one["loss"] for one in metrics[5:-1]]
    for folder, trained in (("whole", whole), ("resumed", resumed)):
        write_trained_model(tmp_path / folder, world, trained, replacing=False)
    assert digests(tmp_path / "whole") == digests(tmp_path / "resumed")
    for key in ("held_out", "tokens"):
        assert whole.facts.get(key) == resumed.facts.get(key)


def test_a_finished_training_resumes_without_a_step(world, tags, tmp_path):
    whole, _ = run(world, tags=tags, checkpoints=tmp_path / "c")
    again, metrics = run(world, tags=tags, checkpoints=tmp_path / "c", resume=True)
    assert metrics == []
    np.testing.assert_array_equal(whole.layers[0].key.weight, again.layers[0].key.weight)


def test_a_checkpoint_of_another_run_is_rejected(world, both, tags, corpus, tmp_path):
    place = tmp_path / "c"
    run(world, checkpoints=place, **both)
    assert checkpoint_names(place) == ["00000004", "00000008"]
    assert (place / TOKENS).is_dir() == ("objective" in both)
    resumed = {"checkpoints": place, "resume": True}
    with pytest.raises(CommandError, match=r"another recipe \(different: seed\)"):
        run(world, **both, **resumed, seed=2)
    other = "contrastive" if "objective" in both else "hidden-words"
    with pytest.raises(CommandError, match="another recipe"):
        run(world, corpus=corpus, **resumed, objective=other)
    with pytest.raises(CommandError, match="already has checkpoints"):
        run(world, checkpoints=place, **both, seed=2)
    changed = corpus if "objective" in both else tags
    changed.write_text(changed.read_text() * 2)
    with pytest.raises(CommandError, match="another model or other training files"):
        run(world, **both, **resumed)


def test_a_checkpoint_with_best_weights_of_another_shape_is_rejected(world, tags, tmp_path):
    place = tmp_path / "c"
    run(world, tags=tags, checkpoints=place, keep="best")
    kept, tensors = load_checkpoint(place)
    # Any of the tensors that has two rows, of which one is removed.
    best = min(n for n, tensor in tensors.items() if n.startswith("best.") and len(tensor) > 1)
    tensors = {**tensors, best: tensors[best][:1]}
    save_checkpoint(place, tensors, **{name: getattr(kept, name) for name in facts()})
    with pytest.raises(CommandError, match="network of another shape"):
        run(world, tags=tags, checkpoints=place, keep="best", resume=True)


def test_resuming_needs_a_checkpoint(world, tags, tmp_path):
    with pytest.raises(CommandError, match="--resume requires --checkpoints"):
        run(world, tags=tags, resume=True)
    with pytest.raises(CommandError, match="There is no checkpoint"):
        run(world, tags=tags, checkpoints=tmp_path / "none", resume=True)


def test_every_step_draws_new_samples(world, tags):
    _, metrics = run(world, tags=tags, learning_rate=1e-12, steps=6, groups=2)
    assert len({one["loss"] for one in metrics if "loss" in one}) == 6


def test_training_ends_after_the_configured_minutes(world, both):
    trained, _ = run(world, **both, steps=None, minutes=0.005)
    assert trained.facts["steps"] >= 1


def test_a_non_finite_loss_is_reported(world, both, monkeypatch):
    class Diverging(trainer_of(both)):
        def _loss(self, *_):
            return math.nan * sum(tensor.sum() for tensor in self.tensors.values())

    with pytest.raises(CommandError, match="smaller --learning-rate"):
        run_of(Diverging, world, monkeypatch, **both)


def test_a_network_that_differs_from_the_engine_is_not_written(world, both, tmp_path, monkeypatch):
    if "objective" in both:
        other = run(world, **both, seed=2)[0]
    else:
        other = world_model(tmp_path / "other", vectors=vectors()[::-1].copy())
    name = "polyseme_lab.training.stack.layers_from_tensors"
    monkeypatch.setattr(name, lambda *_: list(other.layers))
    monkeypatch.setattr(Network, "to_layers", lambda _: list(other.layers))
    with pytest.raises(CommandError, match="Nothing was written"):
        run(world, checkpoints=tmp_path / "c", **both)
    assert checkpoint_names(tmp_path / "c") == []
