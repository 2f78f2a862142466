"""Short trainings with either objective, and their results."""

import hashlib

from polyseme.engine.layers import contextualize
from polyseme.terminal import SILENT
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.data import TrainingFiles
from polyseme_lab.training.run import HiddenWordsRun, TrainingRun
from tests.models.damage import paths
from tests.tokenizer.vocabularies import resolve_all

CONTRASTIVE = {
    "steps": 8,
    "groups": 6,
    "occurrences": 6,
    "score_every": 4,
    "fewest": 5,
    "held_out": 0.3,
    "anchor": 0.0,
}
HIDDEN_WORDS = {
    "objective": "hidden-words",
    "steps": 8,
    "layers": 2,
    "heads": 3,
    "feed_forward": 11,
    "sentences": 16,
    "negatives": 20,
    "warmup": 2,
    "score_every": 4,
    "held_out_sentences": 50,
    "precision": "float32",
    "leave_out": (),
}


def training(model, *, tags=None, corpus=None, checkpoints=None, resume=False, **recipe):
    """A training with files and a recipe that have not been read yet."""
    files = TrainingFiles((corpus,) if corpus else (), (tags,) if tags else ())
    if recipe.get("objective") == "hidden-words":
        kind, config = HiddenWordsRun, HiddenWordsConfig(**{**HIDDEN_WORDS, **recipe})
    else:
        kind, config = TrainingRun, TrainingConfig(**{**CONTRASTIVE, **recipe})
    return kind(model, files, config, checkpoints, resume)


def run(model, **options):
    """Train; return the result and the metrics of each step."""
    steps = []
    trained = training(model, **options).run(SILENT, lambda _, metrics: steps.append(metrics))
    return trained, steps


def encoded(layers, model, words):
    """The contextual vectors of a sentence."""
    sentence = model.inputs(resolve_all(words, model.vocabulary))
    return contextualize(sentence, layers).contextual


def digests(folder):
    """The sha256 of each file in the folder of a model, by name, but that of the manifest."""
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in paths(folder).items()
        if file.exists()
    }
