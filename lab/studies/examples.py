"""Write the attention of a model in ten sentences, neighbors of words in context, and senses.

    python lab/studies/examples.py [--model NAME] --corpus simplewiki.txt.zst --output FILE.json

The sentences are fixed, so they also show a model's weaknesses. docs/quality.md and docs/senses.md
have the results.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson
from lab.studies.ablation import fingerprints

from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.compare import CompareRequest, compare
from polyseme.operations.schema import Neighbor
from polyseme.tokenizer import tokenize

SENTENCES = {
    "bank-money-river": "she went to the bank to deposit money near the river",
    "animal-tired": "the animal didn't cross the street because it was too tired",
    "animal-wide": "the animal didn't cross the street because it was too wide",
    "apple-phone": "Apple launched a new phone",
    "apple-eating": "he was eating an apple under the tree",
    "two-apples": "Apple launched a new phone while I was eating an apple",
    "spring-water": "the spring gave cold water to the village",
    "spring-coil": "the spring in the old mattress was broken",
    "java-language": "she wrote the program in Java and compiled it",
    "bass-river": "he caught a large bass in the lake",
}
WORDS = (
    ("apple", "Apple launched a new phone"),
    ("apple", "he was eating an apple under the tree"),
    ("apple", "apple launched a new phone"),
    ("bank", "she sat on the grass of the river bank"),
    ("bank", "the bank raised the interest on his loan"),
    ("spring", "the spring gave cold water to the village"),
    ("spring", "the flowers come out in early spring"),
)
"""Pairs of a word and a sentence. The third is about the company, spelled like the fruit."""
SENSES = ("bank", "bat", "park")
NEIGHBORS, MOST_ATTENDED, DIGITS = 6, 3, 3


def attention(model: Model, text: str) -> dict[str, Any]:
    """Return the tokens of a sentence and the weights [L, h, n, n] of all layers, as lists."""
    tokens = tokenize(text, model.vocabulary, composes=model.composes)
    records = contextualize(model.sentence(tokens), model.layers, ("weights",)).records
    weights = [record["weights"].astype(float).round(DIGITS).tolist() for record in records]
    return {"text": text, "tokens": [token.text for token in tokens], "weights": weights}


def neighbors(model: Model) -> list[dict[str, Any]]:
    """Return the static and contextual neighbors of each word, and the similarities."""
    occurrences = [{"text": text, "word": word} for word, text in WORDS]
    compared = compare(model, CompareRequest.of(occurrences=occurrences, neighbors=NEIGHBORS))
    similarities = compared.contextual_similarity.round(DIGITS).tolist()

    def rounded(neighbors: Sequence[Neighbor]) -> list[tuple[str, float]]:
        return [(near.word, round(near.similarity, DIGITS)) for near in neighbors]

    return [
        {
            "text": text,
            "word": occurrence.token.text,
            "shift": round(occurrence.shift, DIGITS),
            "static": rounded(occurrence.static_neighbors),
            "contextual": rounded(occurrence.contextual_neighbors),
            "attends_to": [
                (key.text, round(key.weight, DIGITS))
                for key in occurrence.attends_to[:MOST_ATTENDED]
            ],
            "similarity": row,
        }
        for occurrence, (_, text), row in zip(
            compared.occurrences, WORDS, similarities, strict=True
        )
    ]


def senses(name: str, models_dir: Path | None, corpus: Path) -> dict[str, str]:
    """Return what `polyseme senses` prints for each word."""
    options = ["--model", name, *(["--models-dir", str(models_dir)] if models_dir else [])]
    return {
        word: subprocess.run(  # noqa: S603 - a command of our own
            [sys.executable, "-m", "polyseme", "senses", word, str(corpus), *options],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for word in SENSES
    }


@click.command()
@click.option("--model", "name", default="wiki-en", show_default=True)
@click.option("--models-dir", type=click.Path(path_type=Path))
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
def main(name: str, models_dir: Path | None, corpus: Path, output: Path) -> None:
    """Write the attention of the sentences, the neighbors of the words, and the senses."""
    model = Registry.of(models_dir, name).model()
    document = {
        "model": name,
        "files": fingerprints(model),
        "sentences": {slug: attention(model, text) for slug, text in SENTENCES.items()},
        "words": neighbors(model),
        "senses": senses(name, models_dir, corpus),
    }
    # Not indented: one number per line would give thousands of lines.
    output.write_bytes(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
    click.echo(f"{len(SENTENCES)} sentences, {len(WORDS)} occurrences")


if __name__ == "__main__":
    main()
