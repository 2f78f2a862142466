"""Training: from files to a model; damaged checkpoints are rejected, others resume exactly."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme.models.weights import tensors_from_layers
from polyseme.terminal import SILENT
from polyseme_lab.training import run as run_module
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.run import (
    CHECKPOINT,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    write_trained_model,
)
from polyseme_lab.training.stack import StackTrainer
from polyseme_lab.training.trainer import Trainer, TrainerState
from tests.lab.training.runs import (
    CONTRASTIVE,
    HIDDEN_WORDS,
    digests,
    encoded,
    run,
    training,
)
from tests.lab.training.world import WORDS, vectors, world_model


@pytest.mark.slow
def test_training_separates_senses_of_held_out_words(world, tags):
    trained, _ = run(world, tags=tags, interpolate=1, steps=60, learning_rate=2.5e-3, seed=3)
    scores = trained.facts["held_out"]
    assert scores["occurrences"] > 50
    assert scores["kept"]["auc"] > scores["before"]["auc"] + 1


def test_lemmas_and_pseudo_words_have_a_temperature_each(world, tags, corpus):
    """A temperature that the loss does not use keeps its initial value."""
    text = {"corpus": corpus, "pseudo_words": 2}
    for sources, moves in (
        ({"tags": tags}, [True, False]),
        (text, [False, True]),
        ({"tags": tags, **text}, [True, True]),
    ):
        trained, _ = run(world, temperature=0.25, **sources)
        assert [t != 0.25 for t in trained.facts["temperatures"]] == moves


def test_a_step_changes_every_tensor(world, both):
    how = {"weight_decay": 0} if "objective" in both else {"interpolate": 1}
    before, after = (
        tensors_from_layers(run(world, **both, **how, steps=n)[0].layers) for n in (0, 2)
    )
    # A bias of the keys adds the same number to all scores of a query, which changes no weight.
    changed = {name for name in before if not np.allclose(before[name], after[name], atol=1e-7)}
    assert {name for name in before if not name.endswith("key_bias")} <= changed


def test_the_manifest_describes_the_training(world, both, tmp_path):
    trained, _ = run(world, **both)
    manifest = write_trained_model(tmp_path / "new", world, trained, replacing=False)
    training = manifest.training
    assert (training["base"], training["steps"], manifest.licence) == ("world", 8, "CC0-1.0")
    if "objective" in both:
        assert HiddenWordsConfig(**training["recipe"]) == HiddenWordsConfig(**HIDDEN_WORDS)
        # Each sentence has ten tokens; a pool of 128 batches has all 550 that are not held out.
        assert 8 * 30 < training["tokens"] < 8 * 60
        assert (training["data"]["sentences"], training["data"]["tokens"]) == (600, 6000)
        assert training["held_out"]["kept"].keys() == {"held_out_loss", "named"}
    else:
        recipe = TrainingConfig(**training["recipe"])
        assert recipe.differences(TrainingConfig(**CONTRASTIVE)) == []
    files = {kind: path for kind, path in sorted(both.items()) if isinstance(path, Path)}
    assert training["data"]["files"] == [
        {"kind": kind, "name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for kind, path in files.items()
    ]
    assert [point["step"] for point in training["history"]] == [0, 4, 8]


def test_the_weights_are_interpolated_between_initial_and_trained(world, tags):
    (whole, _), (half, _) = (run(world, tags=tags, interpolate=t) for t in (1, 0.25))
    start, end = world.layers[0].key.weight, whole.layers[0].key.weight
    between = half.layers[0].key.weight
    np.testing.assert_allclose(between, 0.75 * start + 0.25 * end, atol=1e-6)


def test_only_the_vectors_of_words_in_the_data_are_trained(world, tags, tmp_path):
    few = tags.read_text().splitlines(keepends=True)[:200]
    tags.write_text("".join(line.replace("bankab", "zzz") for line in few if "theaj" not in line))
    one = training(world, tags=tags, tune_embeddings=True, interpolate=1)
    trained = one.run(SILENT, lambda *_: None)
    write_trained_model(tmp_path / "new", world, trained, replacing=False)
    changed = (read_model(tmp_path / "new").vectors != vectors()).any(axis=1)
    assert changed[WORDS.index("riverad")]
    assert not changed[WORDS.index("theaj")]
    assert not one._trainer.tensors["embedding"][-1].any()  # unknown tokens


def test_a_model_without_weights_has_vectors_to_train(tmp_path, tags):
    model = world_model(tmp_path, weights=False)
    trained, _ = run(model, tags=tags, tune_embeddings=True)
    assert len(trained.rows) > 40
    with pytest.raises(CommandError, match="no weights to train"):
        run(model, tags=tags)


def test_a_long_history_is_thinned_out(world, tags, monkeypatch):
    monkeypatch.setattr(run_module, "MAX_HISTORY", 4)
    trained, _ = run(world, tags=tags, steps=7, score_every=1, groups=1)
    steps = [point["step"] for point in trained.facts["history"]]
    assert (len(steps), steps[0], steps[-1]) == (4, 0, 7)


@pytest.mark.slow
def test_the_scale_of_the_vectors_does_not_matter(tmp_path, tags):
    found = []
    for factor in (1, 1e3):
        model = world_model(tmp_path, vectors=vectors() * np.float32(factor), replace=True)
        trained, _ = run(model, tags=tags, interpolate=1, anchor=1e-3)
        found.append(encoded(trained.layers, model, ["bankaa", "theaa", "riveraa"]))
    np.testing.assert_allclose(*found, atol=1e-3)


def test_keep_best_keeps_the_weights_with_the_best_score(world, tags):
    options = {"tags": tags, "interpolate": 1, "learning_rate": 1, "schedule": "constant"}
    best, metrics = run(world, keep="best", **options)
    last, _ = run(world, **options)
    scores = [one["auc"] for one in metrics if "auc" in one]
    assert scores[0] > scores[-1]
    assert best.facts["held_out"]["kept"]["auc"] == max(scores)
    assert last.facts["held_out"]["kept"]["auc"] == scores[-1]


@pytest.mark.slow
def test_anchors_and_the_schedule_reduce_changes(world, tags):
    options = {"tags": tags, "interpolate": 1, "steps": 12}
    (free, _), (anchored, _), (cosine, _) = (
        run(world, **options, schedule=schedule, anchor=anchor)
        for schedule, anchor in (("constant", 0), ("constant", 100), ("cosine", 0))
    )
    start = world.layers[0].key.weight
    changes = [np.abs(one.layers[0].key.weight - start).max() for one in (free, anchored, cosine)]
    assert changes[1] < 0.5 * changes[0]
    assert changes[2] < 0.8 * changes[0]
    tuned = {**options, "tune_embeddings": True, "embedding_rate": 0.01}
    changes = []
    for anchor in (0, 1000):
        trained, _ = run(world, **tuned, embedding_anchor=anchor)
        changes.append(np.abs(trained.vectors - vectors()[trained.rows]).max())
    assert changes[1] < 0.6 * changes[0]


@pytest.mark.parametrize("store", [quantize, lambda rows: rows.astype(np.float16)])
@pytest.mark.parametrize("tune", [True, False])
def test_a_model_keeps_its_dtype(tmp_path, tags, store, tune):
    model = world_model(tmp_path, store=store)
    trained, _ = run(model, tags=tags, steps=2, tune_embeddings=tune, interpolate=1)
    manifest = write_trained_model(tmp_path / "new", model, trained, replacing=False)
    assert manifest.dtype == model.manifest.dtype != "float32"
    change = np.abs(read_model(tmp_path / "new").vectors[:].astype(float) - model.vectors[:]).max()
    assert (1e-4 < change < 0.2) if tune else change == 0


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
