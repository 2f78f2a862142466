"""NDJSON for schemathesis: valid lines, and their serialization."""

from typing import Any

import orjson
import schemathesis
from hypothesis import strategies as st

NDJSON = "application/x-ndjson"
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_LINES = st.lists(_WORDS, min_size=1, max_size=5) | st.lists(
    st.lists(_WORDS, max_size=4), min_size=1, max_size=5
)


def _written(entries: list[Any]) -> bytes:
    return b"\n".join(map(orjson.dumps, entries))


schemathesis.openapi.media_type(NDJSON, _LINES.map(_written))


@schemathesis.serializer(NDJSON)
def _serialize(_context: schemathesis.SerializationContext, value: Any) -> Any:
    """Valid bodies are bytes already; bodies that violate the schema may have any type."""
    return value if isinstance(value, bytes) else orjson.dumps(value, default=str)
