"""Answers as plain documents: what HTTP and the command line both write as JSON."""

from collections.abc import Sequence
from typing import Any

from polyseme.encoding.arrays import as_numbers
from polyseme.encoding.compare import Compared, Comparison
from polyseme.encoding.encoder import Encoded
from polyseme.encoding.flat_map import FlatMap
from polyseme.engine.trace import Step
from polyseme.models.manifest import Manifest
from polyseme.tokenizer import Token


def token_document(token: Token) -> dict[str, Any]:
    """A token, without what only the service needs: its row, the spelling it is composed of."""
    return {
        "text": token.text,
        "start": token.start,
        "end": token.end,
        "key": token.key,
        "resolution": token.resolution,
    }


def sentence_document(one: Encoded) -> dict[str, Any]:
    """A sentence without its arrays."""
    return {"tokens": [token_document(token) for token in one.tokens], "truncated": one.truncated}


def compare_document(manifest: Manifest, comparison: Comparison) -> dict[str, Any]:
    """The answer of /v1/compare."""
    return {
        "model": manifest.name,
        "occurrences": [_occurrence(one) for one in comparison.occurrences],
        "static_similarity": as_numbers(comparison.static_similarity),
        "contextual_similarity": as_numbers(comparison.contextual_similarity),
        "notes": comparison.notes,
        **({"map": _map(comparison.flat_map)} if comparison.flat_map else {}),
    }


def _map(flat_map: FlatMap) -> dict[str, Any]:
    return {
        "explained_variance_ratio": flat_map.explained_variance_ratio,
        "static": flat_map.static,
        "contextual": flat_map.contextual,
        "neighbors": [
            {"word": word, "position": position} for word, position in flat_map.neighbours.items()
        ],
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
        "bytes": sum(entry.bytes for entry in manifest.files.values()),
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
