"""The catalogue of operations: routes, the OpenAPI document and the clients read it.

`/v1/encode` is not in it, because it has media types of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from polyseme.operations.compare import CompareRequest, Comparison, MappedComparison, compare
from polyseme.operations.embed import Embeddings, EmbeddingsRequest, embed, embeddings_parts
from polyseme.operations.neighbors import Neighbors, NeighborsRequest, neighbors
from polyseme.operations.schema import Request
from polyseme.operations.trace import Trace, TraceRequest, trace, trace_parts
from polyseme.senses.find import MappedSenses, Senses, SensesRequest, find_senses
from polyseme.senses.inventory import AppliedSenses, ApplySensesRequest, apply_senses


@dataclass(frozen=True)
class Operation:
    """One operation: `POST /v1/{path}` takes a request and returns a result."""

    path: str
    request: type[Request[Any]]
    result: type
    """what the clients return"""
    function: Callable[..., Any]
    """computes the result from a model, a request and limits"""
    summary: str
    document: type | None = None
    """the schema of the response, if it has more fields than `result`"""
    write_parts: Callable[[Any], Iterable[bytes]] | None = None
    """writes a large result in parts"""
    settings: tuple[str, ...] = ()
    """the fields whose defaults are settings of the same names"""

    @property
    def name(self) -> str:
        """The name in the OpenAPI document, such as `apply_senses` for senses/apply."""
        return "_".join(reversed(self.path.split("/")))


_OPERATIONS = (
    Operation(
        "compare",
        CompareRequest,
        Comparison,
        compare,
        "Compare occurrences of words",
        document=MappedComparison,
    ),
    Operation(
        "senses",
        SensesRequest,
        Senses,
        find_senses,
        "Find the senses of a word in texts, without labels",
        document=MappedSenses,
    ),
    Operation(
        "senses/apply",
        ApplySensesRequest,
        AppliedSenses,
        apply_senses,
        "Assign the senses of an inventory to the occurrences of its word in texts",
    ),
    Operation(
        "trace",
        TraceRequest,
        Trace,
        trace,
        "Compute every step of attention, in float64",
        write_parts=trace_parts,
    ),
    Operation(
        "neighbors",
        NeighborsRequest,
        Neighbors,
        neighbors,
        "Find the words nearest to a word, a vector or a sum of several",
    ),
    Operation(
        "embeddings",
        EmbeddingsRequest,
        Embeddings,
        embed,
        "Embed texts, in OpenAI's format",
        write_parts=embeddings_parts,
        settings=("pooling", "wordless", "truncate"),
    ),
)
OPERATIONS: dict[type[Request[Any]], Operation] = {one.request: one for one in _OPERATIONS}
"""Each operation, by the class of its request."""
