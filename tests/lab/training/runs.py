"""Short trainings and their results."""

import hashlib

from polyseme.progress import SILENT
from polyseme_lab.training.config import TrainingConfig

QUICK = {
    "steps": 8,
    "groups": 6,
    "occurrences": 6,
    "score_every": 4,
    "fewest": 5,
    "held_out": 0.3,
    "anchor": 0.0,
}


def run(model, *, tags=None, corpus=None, checkpoints=None, resume=False, **recipe):
    """Train; return the result and the metrics of each step."""
    from polyseme_lab.training.data import TrainingFiles
    from polyseme_lab.training.run import TrainingRun

    files = TrainingFiles((corpus,) if corpus else (), (tags,) if tags else ())
    steps = []
    training = TrainingRun(model, files, TrainingConfig(**{**QUICK, **recipe}), checkpoints, resume)
    trained = training.run(SILENT, lambda _, metrics: steps.append(metrics))
    return trained, steps


def digests(folder):
    """The sha256 of each file of a model but the manifest, which has the duration."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
