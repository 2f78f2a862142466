"""Train attention weights for public vectors, for `models import --weights`.

    python lab/factory/build_weights.py --vectors FOLDER --tags ARCHIVE --data FOLDER
        [--corpus FILE]… [--models-dir FOLDER] [--only NAME]…

The script imports each file of `FILES` with the closed form and without subwords, and runs
`polyseme train` for each of `SETTINGS`. It imports the file again with the weights of the setting
that is best on held-out lemmas, without their word bias, and compares them with the closed form on
CoarseWSD-20 and WiC in --data. It writes the weights to `models/weights/NAME.safetensors`, and the
results to `lab/results/weights.json` and its report. Weights that are worse on both sets, or not
better on held-out lemmas, are not shipped; apart from that, the results select nothing. Models that
exist in --models-dir are not trained again.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from safetensors.numpy import save

from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.weights import layer_entry, tensors_from_layers
from polyseme.progress import Progress
from polyseme_lab import report
from polyseme_lab.commands.train import run_train
from polyseme_lab.evaluation.coarsewsd import known_words
from polyseme_lab.evaluation.datasets import Files, read_archive
from polyseme_lab.evaluation.measure import quality
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.wic import known_pairs

ROOT = Path(__file__).parents[2]
WEIGHTS, RESULTS = ROOT / "models" / "weights", ROOT / "lab" / "results" / "weights.json"
FILES = {
    "glove-wiki-gigaword-50": "glove.6B.50d.9k.txt.gz",
    "glove-twitter-25": "glove.twitter.27B.25d.12k.txt.gz",
    "word2vec-google-news-300": "GoogleNews.8k.300d.bin.gz",
}
"""Names of vectors in gensim-data, and files with some of their rows."""
STEPS = 400
SETTINGS: dict[str, tuple[str, ...]] = {
    "one-head": ("--init", "model"),
    "faster": ("--init", "model", "--learning-rate", "0.002", "--interpolate", "0.8"),
    "two-heads": ("--init", "closed-form", "--heads", "2"),
}
PLAIN = "one-head"
"""The setting whose scores before training (closed form) are the baseline."""
LICENCE = "CC BY 4.0, the Polyseme authors; learned with Google's sense annotations (CC BY 4.0)"
Document = dict[str, Any]


def imported(file: Path, folder: Path, weights: Path | None = None) -> Path:
    """Import a file without subwords, unless the folder exists; return the folder."""
    if not folder.exists():
        import_vectors(file, folder, ImportOptions(weights=weights, subwords=False), Progress())
    return folder


def trained(model: Path, sources: list[str], setting: str) -> Path:
    """Train a model with a setting, unless the result exists; return the folder of the result."""
    folder = model.with_name(f"{model.name}.{setting}")
    if not folder.exists():
        run_train(
            *("--model", model.name, "--models-dir", model.parent, "--output", folder.name),
            *sources,
            *("--steps", STEPS, "--seed", 1, "--threads", 1, *SETTINGS[setting]),
        )
    return folder


def score(model: Model) -> float:
    """Return the sum of AUC and macro-F1 on held-out lemmas."""
    kept = model.manifest.training["held_out"]["kept"]
    return float(kept["auc"] + kept["macro_f1"])


def serialized(model: Model) -> bytes:
    """Return a safetensors file of the weights, without the tensors that depend on the words."""
    tensors = {
        name: np.ascontiguousarray(tensor, np.float32)
        for name, tensor in tensors_from_layers(list(model.layers)).items()
    }
    entries = [layer_entry(layer).model_dump() for layer in model.layers]
    about = {"heads": str(model.manifest.heads), "layers": json.dumps(entries)}
    return sorted_header(save(tensors, {**about, "licence": LICENCE}))


def sorted_header(content: bytes) -> bytes:
    """Return a safetensors file with a sorted header; the library's order varies between runs."""
    size = int.from_bytes(content[:8], "little")
    header = orjson.loads(content[8 : 8 + size])
    head = orjson.dumps(header, option=orjson.OPT_SORT_KEYS)
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + content[8 + size :]


def measured(model: Model, coarse: Files, in_context: Files) -> Document:
    """Return a model's measures on the words and pairs in the vocabulary."""
    knows = LocalSource(model).knows
    words, pairs = known_words(coarse, knows), known_pairs(in_context, knows)
    return quality(model, words, pairs)


def verdict(results: Document) -> Document:
    """Compare trained weights with the closed form, and decide whether to ship them."""
    closed, trained = results["closed form"], results["trained"]
    coarse = trained["coarsewsd"]["macro_f1"] >= closed["coarsewsd"]["macro_f1"]
    pairs = trained["wic"]["dev_accuracy"] >= closed["wic"]["dev_accuracy"]
    before, kept = results["held_out"]["before"], results["held_out"]["kept"]
    held_out = all(kept[name] > before[name] for name in ("auc", "macro_f1"))
    return {
        "better_on_held_out_lemmas": held_out,
        "no_worse_on_coarsewsd": coarse,
        "no_worse_on_wic": pairs,
        "shipped": held_out and (coarse or pairs),
    }


def learned(file: Path, folder: Path, sources: list[str]) -> tuple[bytes, Document]:
    """Train with each setting for one file; return the best weights and a report."""
    imported(file, folder)
    tried = {name: read_model(trained(folder, sources, name)) for name in SETTINGS}
    best = max(tried, key=lambda name: score(tried[name]))
    manifest = tried[best].manifest
    held_out = {name: model.manifest.training["held_out"] for name, model in tried.items()}
    facts = {
        "file": {"name": file.name, "sha256": manifest.training["of_base"]["file"]["sha256"]},
        "setting": best,
        "options": [*SETTINGS[best], "--steps", str(STEPS)],
        "tensors": {n: shape for n, shape in manifest.tensors.items() if n != "word_bias"},
        "tags": manifest.training["data"]["files"],
        "torch": manifest.training["torch"],
        "held_out": {**held_out[best], "before": held_out[PLAIN]["before"]},
        "tried": {name: scores["kept"] for name, scores in held_out.items()},
    }
    return serialized(tried[best]), facts


def comparison(file: Path, name: str, models: Path, weights: bytes, sets: list[Files]) -> Document:
    """Return the measures of the closed form, and of the trained weights after an import."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "weights.safetensors"
        path.write_bytes(weights)
        model = read_model(imported(file, Path(scratch) / name, path))
        return {
            "closed form": measured(read_model(models / name), *sets),
            "trained": measured(model, *sets),
        }


def ship(name: str, weights: bytes, results: Document) -> None:
    """Write or remove a file of weights, and update the results and their report."""
    path = WEIGHTS / f"{name}.safetensors"
    if results["shipped"]:
        path.write_bytes(weights)
    else:
        path.unlink(missing_ok=True)
    measured = orjson.loads(RESULTS.read_bytes()) if RESULTS.exists() else {}
    measured[name] = results
    report.write(RESULTS, {known: measured[known] for known in FILES if known in measured})


_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--vectors", type=_path, required=True, help="The folder of the vector files.")
@click.option("--tags", type=_path, required=True, help="Sentences with tagged senses.")
@click.option("--corpus", type=_path, multiple=True, help="Plain text for the training.")
@click.option("--data", type=_path, required=True, help="The folder of CoarseWSD-20 and WiC.")
@click.option("--models-dir", type=click.Path(path_type=Path), help="The folder of the models.")
@click.option("--only", multiple=True, type=click.Choice(list(FILES)), help="Vectors to train.")
def main(
    vectors: Path,
    tags: Path,
    corpus: tuple[Path, ...],
    data: Path,
    models_dir: Path | None,
    only: tuple[str, ...],
) -> None:
    """Train and measure weights, and write those that are better."""
    sources = ["--tags", str(tags), *(part for file in corpus for part in ("--corpus", str(file)))]
    sets = [read_archive(data / f"{name}.tar.xz") for name in ("coarsewsd", "wic")]
    with tempfile.TemporaryDirectory() as scratch:
        models = models_dir or Path(scratch)
        for name in only or FILES:
            file = vectors / FILES[name]
            weights, facts = learned(file, models / name, sources)
            results = {**facts, **comparison(file, name, models, weights, sets)}
            results |= verdict(results)
            ship(name, weights, results)
            click.echo(f"{name}: {'shipped' if results['shipped'] else 'not shipped'}")


if __name__ == "__main__":
    main()
