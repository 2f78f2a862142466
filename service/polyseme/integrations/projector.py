"""Save token vectors for the Embedding Projector of TensorBoard and projector.tensorflow.org.

The files are the vectors, a table with a row for each vector, and a configuration file.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from polyseme.atomic_files import atomic_files
from polyseme.client.results import VECTOR_KINDS, Sentence, VectorKind

_COLUMNS = ("token", "kind", "sentence", "place", "key", "resolution", "context")
_BREAKS = "\\\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
"""The escape character, and characters that end a field or a line in some programs."""
_ESCAPES = str.maketrans({letter: repr(letter)[1:-1] for letter in _BREAKS})


def save_projection(
    folder: str | Path,
    sentences: Sequence[Sentence],
    kinds: Sequence[VectorKind] = ("contextual",),
    address: str | None = None,
) -> int:
    r"""Write `vectors.tsv`, `metadata.tsv` and `projector_config.pbtxt`; return the point count.

    Each token has a point for each of `kinds`. The points are in the order of `kinds`, then of the
    sentences. `metadata.tsv` has a header; characters that end a field or a line are escaped as in
    Python strings: `\t`, `\n`, `\\`. If `address`, the future URL of the folder, is given,
    `config.json` is written for projector.tensorflow.org. Raises ValueError if `kinds` are invalid
    or a sentence has no vectors of a kind, OSError if the files cannot be written; existing files
    are then unchanged.
    """
    if isinstance(kinds, str) or not kinds or any(kind not in VECTOR_KINDS for kind in kinds):
        example = 'such as `kinds=["static", "contextual"]`'
        raise ValueError(f"Give a list of kinds, {example}, of {', '.join(VECTOR_KINDS)}.")
    if any(kind not in sentence.arrays for sentence in sentences for kind in kinds):
        raise ValueError(f"A sentence lacks vectors of a kind: encode with `include={[*kinds]}`.")
    if "features" in kinds and len(kinds) > 1:
        raise ValueError("`features` are twice as wide as other vectors: save them alone.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["vectors.tsv", "metadata.tsv", "projector_config.pbtxt"]
    names += [] if address is None else ["config.json"]
    count, width = 0, 0
    with atomic_files(*(folder / name for name in names)) as (vectors, metadata, config, *page):
        metadata.write(_tsv_line(_COLUMNS))
        for kind in kinds:
            for number, sentence in enumerate(sentences):
                rows = np.ascontiguousarray(sentence.arrays[kind], np.float32)
                for row in rows:
                    # orjson writes the fewest digits that read back to the same float32.
                    digits = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
                    vectors.write(digits[1:-1].replace(b",", b"\t") + b"\n")
                context = " ".join(sentence.words)
                for place, token in enumerate(sentence.tokens):
                    where = (kind, str(number), str(place))
                    found = (token.key or "", token.resolution)
                    metadata.write(_tsv_line([token.text, *where, *found, context]))
                count, width = count + len(rows), rows.shape[1]
        config.write(
            b'embeddings {\n  tensor_name: "polyseme"\n'
            b'  tensor_path: "vectors.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
        )
        for file in page:
            base = (address or "").rstrip("/")
            tensor = {
                "tensorName": "polyseme",
                "tensorShape": [count, width],
                "tensorPath": f"{base}/vectors.tsv",
                "metadataPath": f"{base}/metadata.tsv",
            }
            file.write(orjson.dumps({"embeddings": [tensor]}, option=orjson.OPT_INDENT_2) + b"\n")
    return count


def _tsv_line(fields: Sequence[str]) -> bytes:
    return "\t".join(field.translate(_ESCAPES) for field in fields).encode() + b"\n"
