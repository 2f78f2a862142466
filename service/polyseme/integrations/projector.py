"""Vectors of words in their sentences as files of the Embedding Projector.

It is a view of TensorBoard, and a page of its own: a file of vectors, a file that says what each of
them is, and one that names the two.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import orjson

from polyseme.client.vectors import Array, Sentence
from polyseme.whole_files import whole_files

Kind: TypeAlias = Literal["static", "contextual"]

_COLUMNS = ("token", "kind", "sentence", "place", "key", "resolution", "context")
_BREAKS = "\\\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
"""What would end a field or a line for one reader or another, and what it is escaped with."""
_ESCAPED = str.maketrans({letter: repr(letter)[1:-1] for letter in _BREAKS})
_VECTORS, _METADATA, _TENSORBOARD, _PAGE = (
    *("vectors.tsv", "metadata.tsv"),
    *("projector_config.pbtxt", "config.json"),
)


def save_projection(
    folder: str | Path,
    sentences: Sequence[Sentence],
    kinds: Sequence[Kind] = ("contextual",),
    address: str | None = None,
) -> int:
    r"""Write `vectors.tsv`, `metadata.tsv` and `projector_config.pbtxt`; return how many points.

    There is a point for each token and each of `kinds`, one kind after the other, sentence by
    sentence. `metadata.tsv` has a header; what would break a line is written as Python writes it in
    a string: `\t`, `\n`, and so `\\`. `address` is where the folder will be on the web, and adds
    `config.json`, which the page reads from there. The files take their places once all are whole.
    Raises ValueError where a sentence has no vectors of a kind, OSError where nothing can be
    written.
    """
    if isinstance(kinds, str) or not kinds:
        raise ValueError('Give a list of kinds, such as `kinds=["static", "contextual"]`.')
    if any(getattr(sentence, kind) is None for sentence in sentences for kind in kinds):
        raise ValueError(f"A sentence has no vectors of a kind: encode with `include={[*kinds]}`.")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    points, width = 0, 0
    names = (_VECTORS, _METADATA, _TENSORBOARD, *([] if address is None else [_PAGE]))
    with whole_files(*(place / name for name in names)) as (vectors, metadata, *configs):
        metadata.write(_line(_COLUMNS))
        for kind in kinds:
            for number, sentence in enumerate(sentences):
                rows = np.ascontiguousarray(getattr(sentence, kind), np.float32)
                vectors.writelines(map(_numbers, rows))
                metadata.writelines(_facts(kind, number, sentence))
                points, width = points + len(rows), rows.shape[1]
        for config, text in zip(configs, _configs(address, [points, width]), strict=False):
            config.write(text.encode())
    return points


def _numbers(vector: Array) -> bytes:
    """A line of numbers, each in the fewest digits that give it back. [d] -> a line"""
    numbers = orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)
    return numbers[1:-1].replace(b",", b"\t") + b"\n"


def _facts(kind: Kind, number: int, sentence: Sentence) -> Iterator[bytes]:
    context = " ".join(sentence.words)
    for place, token in enumerate(sentence.tokens):
        where = (kind, str(number), str(place))
        yield _line([token.text, *where, token.key or "", token.resolution, context])


def _line(fields: Iterable[str]) -> bytes:
    return "\t".join(field.translate(_ESCAPED) for field in fields).encode() + b"\n"


def _configs(address: str | None, shape: list[int]) -> Iterator[str]:
    """What TensorBoard reads, and then what the page does."""
    yield (
        'embeddings {\n  tensor_name: "polyseme"\n'
        f'  tensor_path: "{_VECTORS}"\n  metadata_path: "{_METADATA}"\n}}\n'
    )
    at = (address or "").rstrip("/")
    tensor = {
        "tensorName": "polyseme",
        "tensorShape": shape,
        "tensorPath": f"{at}/{_VECTORS}",
        "metadataPath": f"{at}/{_METADATA}",
    }
    yield orjson.dumps({"embeddings": [tensor]}, option=orjson.OPT_INDENT_2).decode() + "\n"
