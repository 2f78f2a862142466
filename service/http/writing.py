"""Writing an answer to HTTP."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import orjson
from flask import Response

from service.encoding.encoder import Encoded
from service.encoding.limits import Limits
from service.errors import FieldError, OutOfRangeError
from service.http.reading import JSON, NPZ

_JSON_FLOAT_BYTES = 16.0
"""What a float32 and its comma take in JSON at most, such as `-1.1754944e-38,`."""


def json_response(document: Any) -> Response:
    """Write a document; its arrays are finite and C-contiguous."""
    return Response(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), content_type=JSON)


def limited(response: Response, limits: Limits) -> Response:
    """Return the answer; raise TooLargeError where it is over the limit in spite of estimates."""
    limits.answer_bytes(len(response.get_data()))
    return response


def number_bytes(kind: str, encoding: Literal["float", "base64"], dtype: str) -> float:
    """How many bytes of an answer one number takes at most."""
    size = float(np.dtype(dtype).itemsize)
    if kind == NPZ:
        return size
    return _JSON_FLOAT_BYTES if encoding == "float" else size * 4 / 3


def cast(encoded: Sequence[Encoded], dtype: Literal["float32", "float16"]) -> None:
    """Put every array into the dtype; raise OutOfRangeError where it cannot hold a number."""
    if dtype == "float32":
        return
    with np.errstate(over="ignore"):
        for one in encoded:
            for part, array in one.arrays.items():
                one.arrays[part] = array.astype(dtype)
                if not np.isfinite(one.arrays[part]).all():
                    raise OutOfRangeError(
                        FieldError("/dtype", "float16 cannot hold a number of the answer"),
                        'Ask for `dtype: "float32"`.',
                    )
