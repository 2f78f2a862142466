"""Messages for invalid values of requests, options, settings, manifests, recipes and sense tags.

pydantic's own messages are not shown: they contain names of its types, and differ between versions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

_MIN_SIMILARITY = 0.7
"""The minimum similarity of a suggested name; `foo` and `oov` have 0.67."""
_MAX_NAME = 128
"""Characters of a name that are compared; known names are shorter."""
_MESSAGES = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is not a known field",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "int_type": "must be an integer",
    "json_invalid": "is not well-formed JSON",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_type": "must be an object",
    "path_not_directory": "must be an existing folder",
    "path_not_file": "must be an existing file",
    "path_type": "must be a path",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}
"""Messages by pydantic's error type; names in braces are keys of the error's `ctx`."""
_POSITION = re.compile(r"at line \d+ column \d+")


def validation_message(error: Mapping[str, Any]) -> str:
    """Return a message for an entry of `ValidationError.errors()`, without a period.

    The message contains allowed values, and no part of the invalid value.
    """
    kind, context = error["type"], error.get("ctx", {})
    if context.get("min_length") == 1:
        return "must not be empty"
    if kind == "literal_error":
        context = {"expected": context["expected"].replace("'", '"')}
    floats = {name: f"{v:g}" for name, v in context.items() if isinstance(v, float)}
    message = _MESSAGES.get(kind, "is not valid").format_map({**context, **floats})
    position = _POSITION.search(context["error"]) if kind == "json_invalid" else None
    return f"{message} {position[0]}" if position else message.replace(" 1 items", " 1 item")


def one_of(values: Sequence[str]) -> str:
    """Return the message for a value that is not one of some strings."""
    *others, last = (f'"{value}"' for value in values)
    return f"must be {', '.join(others)} or {last}" if others else f"must be {last}"


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return `; did you mean …?` with the most similar known name, or an empty string.

    `prefix` precedes the name in the question and is not compared.
    """
    similar = get_close_matches(name[:_MAX_NAME], known, 1, _MIN_SIMILARITY)
    return f"; did you mean `{prefix}{similar[0]}`?" if similar else ""
