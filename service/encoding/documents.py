"""Answers as plain documents: what HTTP and the command line both write as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pybase64

from service.encoding.compare import Compared, Comparison
from service.encoding.encoder import Encoded
from service.engine.arrays import Floats
from service.engine.trace import Step
from service.store.manifest import Manifest
from service.text.tokens import Token

_SHOWN = ("text", "start", "end", "key", "resolution")
"""The fields of a token that an answer has."""


def as_numbers(array: Floats) -> Floats:
    """An array that orjson writes as nested lists; it takes C-contiguous ones alone."""
    return np.ascontiguousarray(array)


def as_base64(array: Floats) -> dict[str, Any]:
    """An array as the base64 of its bytes, little-endian, C order."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    data = pybase64.b64encode(little.tobytes()).decode("ascii")
    return {"shape": list(array.shape), "dtype": array.dtype.name, "data": data}


def token_document(token: Token) -> dict[str, Any]:
    """A token, without what only the service needs: its row, the spelling it is composed of."""
    return {name: getattr(token, name) for name in _SHOWN}


def sentence_document(one: Encoded) -> dict[str, Any]:
    """A sentence without its arrays."""
    return {"tokens": [token_document(token) for token in one.tokens], "truncated": one.truncated}


def encode_document(
    manifest: Manifest,
    encoded: Sequence[Encoded],
    write: Callable[[Floats], Any] = as_numbers,
) -> dict[str, Any]:
    """The answer of /v1/encode."""
    results = [
        {**sentence_document(one), **{part: write(array) for part, array in one.arrays.items()}}
        for one in encoded
    ]
    tokens = [token for one in encoded for token in one.tokens]
    usage = {
        "tokens": len(tokens),
        "oov": sum(token.resolution == "oov" for token in tokens),
        "truncated": sum(one.truncated for one in encoded),
    }
    return {
        "model": manifest.name,
        "dimension": manifest.dimension,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
        "results": results,
        "usage": usage,
    }


def compare_document(manifest: Manifest, comparison: Comparison) -> dict[str, Any]:
    """The answer of /v1/compare."""
    return {
        "model": manifest.name,
        "occurrences": [_occurrence(one) for one in comparison.occurrences],
        "static_similarity": as_numbers(comparison.static_similarity),
        "contextual_similarity": as_numbers(comparison.contextual_similarity),
        "notes": comparison.notes,
    }


def _occurrence(one: Compared) -> dict[str, Any]:
    return {
        "token": token_document(one.token),
        "shift": one.shift,
        "static_neighbors": neighbour_documents(one.static_neighbours),
        "contextual_neighbors": neighbour_documents(one.contextual_neighbours),
        "attends_to": [
            {"text": token.text, "start": token.start, "end": token.end, "weight": weight}
            for token, weight in one.attends_to
        ],
    }


def neighbour_documents(neighbours: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Neighbours, best first."""
    return [{"word": word, "similarity": similarity} for word, similarity in neighbours]


def trace_document(tokens: Sequence[str], steps: Sequence[Step]) -> dict[str, Any]:
    """The answer of /v1/trace."""
    return {
        "tokens": list(tokens),
        "steps": [
            {
                "name": step.name,
                "formula": step.formula,
                "shape": list(step.values.shape),
                "values": as_numbers(step.values),
            }
            for step in steps
        ],
    }


def model_document(manifest: Manifest) -> dict[str, Any]:
    """What a manifest says of a model, as /v1/models has it."""
    return {
        "dimension": manifest.dimension,
        "vocabulary_size": manifest.vocabulary_size,
        "dtype": manifest.dtype,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
        "cased": manifest.cased,
        "subwords": manifest.subwords is not None,
        "languages": manifest.languages,
        "licence": manifest.licence,
        "source": manifest.source,
        "training": manifest.training,
        "quality": manifest.quality,
    }
