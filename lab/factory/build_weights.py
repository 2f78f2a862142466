"""Train attention weights for public vectors, for `models import --weights`.

    python lab/factory/build_weights.py --vectors FILE --tags ARCHIVE --output FILE.safetensors

The script imports the file with the closed form and without subwords, runs `polyseme train` on the
sense tags, and writes the weights without the word bias. `models/weights` has those of GoogleNews:
`lab/results/weights.md` compares them with the closed form and with other settings.
"""

import json
import tempfile
from pathlib import Path

import click
import numpy as np
import orjson
from safetensors.numpy import save

from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.weights import layer_entry, tensors_from_layers
from polyseme_lab.commands.train import run_train

OPTIONS = ("--steps", 400, "--seed", 1, "--threads", 1)
LICENCE = "CC BY 4.0, the Polyseme authors; learned with Google's sense annotations (CC BY 4.0)"


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


_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--vectors", type=_path, required=True, help="The file of the vectors.")
@click.option("--tags", type=_path, required=True, help="Sentences with tagged senses.")
@click.option("--output", type=click.Path(path_type=Path), required=True)
def main(vectors: Path, tags: Path, output: Path) -> None:
    """Train weights and write them."""
    with tempfile.TemporaryDirectory() as folder:
        import_vectors(vectors, Path(folder) / "start", ImportOptions(subwords=False))
        models = ("--model", "start", "--models-dir", folder, "--output", "trained")
        run_train(*models, "--tags", tags, *OPTIONS)
        output.write_bytes(serialized(read_model(Path(folder) / "trained")))


if __name__ == "__main__":
    main()
