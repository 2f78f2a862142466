"""Compare the speed of two models in the engine, on one core.

    python benchmarks/editions.py FOLDER FOLDER [--rounds 15]

The models encode sentences of 5 to 60 words that both vocabularies contain, in turn (A B A B …),
from words to contextual vectors, with attention weights in the result and without. Figures are
tokens per second and ratios of medians. The first edition of the bundled model is in the
repository's history (`git archive 58b992a models/wiki-en`). Results: results/editions.json.
"""

from functools import partial
from pathlib import Path

import click
import numpy as np
from record import in_turn, medians, record, seconds
from threadpoolctl import threadpool_limits

from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.tokenizer import resolve_all

SENTENCES, COMMON, SEED = 300, 20_000, 1
MIN_WORDS, MAX_WORDS = 5, 60


def sentences(models: list[Model]) -> list[list[str]]:
    """Draw sentences of words in all vocabularies; frequent words are drawn more often."""
    rng = np.random.default_rng(SEED)
    first, *others = models
    words = [first.vocabulary.word(row) for row in range(COMMON)]
    known = [
        word for word in words if all(other.vocabulary.row(word) is not None for other in others)
    ]
    weights = 1 / (np.arange(len(known)) + 10)
    lengths = rng.integers(MIN_WORDS, MAX_WORDS + 1, SENTENCES)
    return [list(rng.choice(known, n, p=weights / weights.sum())) for n in lengths]


def encode(model: Model, texts: list[list[str]], names: tuple[str, ...]) -> None:
    """Encode all sentences."""
    for text in texts:
        contextualize(model.sentence(resolve_all(text, model.vocabulary)), model.layers, names)


_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.argument("first", type=_folder)
@click.argument("second", type=_folder)
@click.option("--rounds", default=15)
def main(first: Path, second: Path, rounds: int) -> None:
    """Run the benchmark."""
    models = {"first": read_model(first), "second": read_model(second)}
    texts = sentences(list(models.values()))
    tokens = sum(map(len, texts))
    results = {}
    with threadpool_limits(1):
        for label, names in (("with attention", ("weights",)), ("without", ())):
            actions = {
                name: partial(seconds, partial(encode, model, texts, names))
                for name, model in models.items()
            }
            middle = medians(in_turn(actions, rounds))
            speeds = {name: round(tokens / middle[name]) for name in models}
            ratio = round(middle["second"] / middle["first"], 3)
            results[label] = {"tokens_per_second": speeds, "ratio_of_times": ratio}
            click.echo(f"{label}: {speeds} tokens/s, ratio of times {ratio}")
    shapes = {
        name: {
            "words": model.manifest.vocabulary_size,
            "dimension": model.manifest.dimension,
            "heads": model.manifest.heads,
            "dtype": model.manifest.dtype,
        }
        for name, model in models.items()
    }
    record("editions", ["numpy"], {"rounds": rounds, "models": shapes, "engine": results})


if __name__ == "__main__":
    main()
