"""Trainings of the small world, and what comes of them."""

import hashlib

from polyseme.training.recipe import Recipe

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
    """Train and return what came of it, and what was told of each step."""
    from polyseme.training.course import Course
    from polyseme.training.reading import Sources

    sources = Sources((corpus,) if corpus else (), (tags,) if tags else ())
    told = []
    one = Course(model, sources, Recipe(**{**QUICK, **recipe}), checkpoints, resume)
    trained = one.run(lambda _name, _size: lambda _count: None, lambda _, t: told.append(t))
    return trained, told


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
