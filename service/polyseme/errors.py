"""All errors of the service: their status, code, detail and hint.

    PolysemeError               500
        NotJsonError            400
        MalformedError          400
        UnauthorisedError       401
        UnknownModelError       404
        UnknownRouteError       404
        MethodNotAllowedError   405
        NotAcceptableError      406
        UnsupportedMediaError   415
        TooLargeError           413
        UnknownHostError        421
        InvalidError            422
            UnknownWordError    422
            OutOfRangeError     422
        RateLimitedError        429
        NotReadyError           503
            ModelFolderError    503
            DrainingError       503
        OverloadedError         503
        OutOfMemoryError        503
        DeadlineError           503
        AbortedError            503

`detail` and `hint` never contain text of the request. The member `words`, with `oov: "error"`,
does, and a path may contain the name of an unknown field. `str(error)` has the summary, the
invalid arguments and the hint.

`CommandError` ends a command of the command line. The service never raises it, so it is not part of
the tree. At the end are the messages for invalid values of requests, options, settings, manifests,
recipes and sense tags.
"""

import copyreg
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

MAX_ERRORS = 100
"""Maximum number of `FieldError` objects in one error."""
_SHOWN = 10
"""Maximum number of items that a message lists."""

FieldPath: TypeAlias = tuple[str | int, ...]
"""The names and indices that lead to a field: `("occurrences", 3, "word")`; () is the request."""


@dataclass(frozen=True)
class FieldError:
    """An error in one field of a request."""

    path: FieldPath
    message: str

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer (RFC 6901) into the body of the request."""
        return "".join(f"/{part}" for part in self.path)


class PolysemeError(Exception):
    """The base class of all errors. Raised directly, it is an internal error."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    detail: str = "The service failed; the request is not the cause."
    hint: str = "Try again. If the error persists, report it with the request ID."
    errors: Sequence[FieldError] = ()
    """the invalid fields"""
    request_id: str | None = None
    """the ID of the failed request, in errors that a client raises"""

    def __init__(self, detail: str | None = None, hint: str | None = None) -> None:
        self.detail = detail or self.detail
        self.hint = hint or self.hint
        super().__init__(self.detail)

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, because the arguments of subclasses differ."""
        return copyreg.__newobj__, (type(self),), vars(self)  # type: ignore[attr-defined]

    def message(self, hint: str | None = None) -> str:
        """Return the summary, the invalid arguments and a hint, by default that of the error."""
        fields = []
        for error in self.errors:
            # The Python argument of a field is `texts[3]` for `("input", 3)`.
            path = ("texts", *error.path[1:]) if error.path[:1] == ("input",) else error.path
            fields.append(f"`{subscripted(path)}`: {error.message}" if path else error.message)
        invalid = with_period(listed(fields, "; ")) if fields else ""
        shown = [self.summary(), invalid, hint or self.hint]
        return " ".join(filter(None, shown))

    def summary(self) -> str:
        """Return what is wrong. Unlike `detail`, it may contain text of the caller."""
        return self.detail

    def members(self) -> dict[str, Any]:
        """Return additional members of the problem document."""
        if not self.errors:
            return {}
        return {"errors": [{"pointer": e.pointer, "message": e.message} for e in self.errors]}

    def headers(self) -> dict[str, str]:
        """Return additional headers of the response."""
        return {}


def subscripted(path: FieldPath) -> str:
    """Return a path as an expression: `occurrences[3].word`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def with_period(text: str) -> str:
    """Return a text with a period at its end, unless it is a question."""
    return text if text.endswith("?") else f"{text}."


def listed(items: Sequence[str], separator: str = ", ") -> str:
    """Return the first items, and the number of further ones."""
    more = [f"{len(items) - _SHOWN} more"] if len(items) > _SHOWN else []
    return separator.join([*items[:_SHOWN], *more])


def counted(count: int, noun: str) -> str:
    """Return a count with a noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


class NotJsonError(PolysemeError):
    """The body cannot be read as JSON."""

    status, code, title = 400, "not_json", "The body is not JSON"
    detail = "The body is not well-formed JSON in UTF-8."
    hint = (
        "Send one JSON object, or one JSON value per line as application/x-ndjson. Numbers must be"
        " finite, and strings must be valid Unicode."
    )


class MalformedError(PolysemeError):
    """The request is not valid HTTP, or its request line or headers are too long."""

    status, code, title = 400, "malformed", "The request is not well-formed HTTP"
    detail = "The request line or a header is malformed or too long."
    hint = (
        "Send a valid HTTP/1.1 request (RFC 9112) with a request line of at most 4 KiB and headers"
        " of at most 8 KiB."
    )


class UnauthorisedError(PolysemeError):
    """A key is required."""

    status, code, title = 401, "unauthorised", "A key is required"
    detail = "The key is missing or wrong."
    hint = "Send `Authorization: Bearer KEY` with a key of this service."

    def headers(self) -> dict[str, str]:
        """Return the authentication scheme (RFC 9110, §11.6.1)."""
        return {"WWW-Authenticate": "Bearer"}


class UnknownModelError(PolysemeError):
    """No model has this name."""

    status, code, title = 404, "unknown_model", "No such model"
    detail = "There is no model of this name."
    hint = "`polyseme models list`, or GET /v1/models of a service, describes the models."

    name: str | None = None
    """the requested name, which is not echoed over HTTP"""

    def __init__(self, available: Sequence[str] = (), name: str | None = None) -> None:
        names = f"Available: {listed(available)}." if available else "There are no models."
        question = did_you_mean(name or "", available) or "."
        super().__init__(f"{self.detail.removesuffix('.')}{question} {names}")
        self.name = name

    def summary(self) -> str:
        """Return the detail with the requested name."""
        if self.name is None:
            return self.detail
        unnamed = type(self).detail.removesuffix(".")
        return self.detail.replace(unnamed, f"No model is named {self.name!r:.66}")


class UnknownRouteError(PolysemeError):
    """No route has this path."""

    status, code, title = 404, "unknown_route", "No such route"
    detail = "There is nothing at this path."
    hint = "GET /openapi.json describes every route; /docs shows them."


class MethodNotAllowedError(PolysemeError):
    """The route does not have this method."""

    status, code, title = 405, "method_not_allowed", "No such method"
    detail = "The route does not allow this method."
    hint = "The Allow header lists the methods."
    allowed: Sequence[str] = ()

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        super().__init__()
        self.allowed = allowed

    def headers(self) -> dict[str, str]:
        """Return the allowed methods (RFC 9110, §15.5.6)."""
        return {"Allow": ", ".join(sorted(self.allowed))}


class NotAcceptableError(PolysemeError):
    """No offered media type is acceptable."""

    status, code, title = 406, "not_acceptable", "No such media type"
    detail = "The route offers no media type that the Accept header names."
    hint = (
        "Accept application/json; /v1/encode also offers application/x-ndjson and"
        " application/x-npz."
    )


class UnsupportedMediaError(PolysemeError):
    """The body is not declared as JSON."""

    status, code, title = 415, "unsupported_media", "The body is not declared as JSON"
    detail = "The Content-Type header is not application/json."
    hint = (
        "Send the header `Content-Type: application/json`, without a Content-Encoding; /v1/encode"
        " also accepts application/x-ndjson, one sentence per line."
    )


class TooLargeError(PolysemeError):
    """A request or response exceeds a size limit."""

    status, code, title = 413, "too_large", "A size limit is exceeded"
    hint = "Split the request, or raise the limit in the service's settings."

    def __init__(
        self,
        what: str,
        size: float | str,
        setting: str,
        limit: float,
        hint: str | None = None,
        errors: Sequence[FieldError] = (),
    ) -> None:
        super().__init__(f"{what}: {size}, over the limit {setting} of {limit}.", hint)
        self.extra = {"limit": limit, "size": size, "setting": setting}
        self.errors = errors

    def members(self) -> dict[str, Any]:
        """Return the limit, the size and the name of the setting, and the field if it is known."""
        return {**self.extra, **super().members()}


class UnknownHostError(PolysemeError):
    """The Host header is not among the configured hosts."""

    status, code, title = 421, "unknown_host", "The request is for another host"
    detail = "The Host header is not a host of this service."
    hint = "Send the request to a host that POLYSEME_HOSTS lists."


class InvalidError(PolysemeError):
    """A field is missing, unknown, of the wrong type or out of range."""

    status, code, title = 422, "invalid", "A field is invalid"
    detail = "A field is invalid."
    hint = "/docs on a service shows the allowed values of each field."

    def __init__(self, errors: Sequence[FieldError], hint: str | None = None) -> None:
        super().__init__(hint=hint)
        self.errors = errors

    def message(self, hint: str | None = None) -> str:
        """Return the message, without the default hint, which refers to a page of a service."""
        message = super().message(hint)
        return message if hint else message.removesuffix(f" {InvalidError.hint}")

    def summary(self) -> str:
        """Return what is wrong; in process, it is an argument instead of a field."""
        return "An argument is invalid." if self.detail == InvalidError.detail else self.detail


class UnknownWordError(InvalidError):
    """Words that the request requires are not in the vocabulary."""

    code, title = "unknown_word", "A word is not in the vocabulary"
    detail = "A word of the request is not in the vocabulary."
    hint = 'Remove the words, or use `oov: "zero"`.'

    def __init__(
        self, errors: Sequence[FieldError], words: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(errors, hint)
        self.words = words

    def summary(self) -> str:
        """Return the detail with the unknown words."""
        words = [word if word.isprintable() else ascii(word) for word in self.words]
        return f"{self.detail[:-1]}: {listed(words)}." if words else self.detail

    def members(self) -> dict[str, Any]:
        """Return the fields, and the unknown words if `oov` is `error`."""
        return {**super().members(), **({"words": list(self.words)} if self.words else {})}


class OutOfRangeError(InvalidError):
    """A result overflows its floating-point type."""

    code, title = "out_of_range", "The result is not a finite number"
    detail = "A result overflows its floating-point type."
    hint = "Send smaller values."

    def __init__(self, error: FieldError | None = None, hint: str | None = None) -> None:
        super().__init__([error or FieldError((), "the result is not finite")], hint)


class _RetryLater:
    """A mixin for temporary errors: the request may succeed later."""

    retry_after: ClassVar[int] = 5

    def __init__(
        self, detail: str | None = None, retry_after: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(detail, hint)  # type: ignore[call-arg]  # the next base is PolysemeError
        self.seconds = self.retry_after if retry_after is None else retry_after

    def headers(self) -> dict[str, str]:
        """Return the seconds to wait before the next attempt."""
        return {"Retry-After": str(self.seconds)}


class RateLimitedError(_RetryLater, PolysemeError):
    """The caller exceeds its rate limit."""

    status, code, title = 429, "rate_limited", "Too many requests"
    detail = "The caller exceeds its rate limit."
    hint = "Wait for the seconds in the Retry-After header."


class NotReadyError(_RetryLater, PolysemeError):
    """The service or a model is not ready."""

    status, code, title = 503, "not_ready", "The service is not ready"
    detail = "The service is not ready."
    hint = "Wait for the seconds in the Retry-After header; GET /readyz shows the state."


class ModelFolderError(NotReadyError):
    """A model folder is incomplete, damaged, or does not match its manifest."""

    code, title = "broken_model", "The model cannot be used"
    detail = "The model's files are missing or damaged, or do not match the manifest."
    hint = "`polyseme models verify NAME` on the server reports the problem."


class DrainingError(NotReadyError):
    """The service is shutting down."""

    code, title = "draining", "The service is shutting down"
    detail = "The service is shutting down; it accepts requests for a few more seconds."


class OverloadedError(_RetryLater, PolysemeError):
    """The request queue is full."""

    retry_after = 1
    status, code, title = 503, "overloaded", "Too many requests at once"
    detail = "The request queue is full."
    hint = (
        "Wait for the seconds in the Retry-After header, and back off exponentially on repeated 503"
        " responses."
    )


class OutOfMemoryError(_RetryLater, PolysemeError):
    """The process has too little memory for the request."""

    status, code, title = 503, "out_of_memory", "Too little memory"
    detail = "The process has too little memory for the request."
    hint = "Send less in one request, or try again when the service is less busy."


class DeadlineError(_RetryLater, PolysemeError):
    """The request took longer than its deadline."""

    status, code, title = 503, "deadline", "The request took too long"
    detail = "The deadline of the request passed before its response was complete."
    hint = "Send less in one request, or try again when the service is less busy."


class AbortedError(_RetryLater, PolysemeError):
    """The client closed the connection before the response; nobody receives this error."""

    status, code, title = 503, "aborted", "The client closed the connection"
    detail = "The client closed the connection before the response."
    hint = "Send the request again and wait for the response."


class CommandError(Exception):
    """A command cannot continue; the message names the problem and usually what to do.

    The command line prints the message and exits with code 1.
    """


def install_command(extra: str) -> str:
    """Return the command that adds the packages of an extra to the installed Polyseme.

    pip keeps the installed Polyseme and adds only missing packages, so the command is the same for
    a checkout, a wheel and a release. It names this interpreter, unless the pip on the search path
    belongs to it.
    """
    path = shutil.which("pip")
    own = path is not None and Path(path).parent == Path(sys.executable).parent
    pip = "pip" if own else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install 'polyseme[{extra}]'"


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
"""Messages by pydantic's error type; names in braces are keys of the error's `ctx`. pydantic's own
messages are not shown: they contain names of its types, and differ between versions."""
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
