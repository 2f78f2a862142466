"""Every error a caller can meet, in one tree: status, code, sentence and hint.

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
        InvalidError            422
            UnknownWordError    422
            OutOfRangeError     422
        RateLimitedError        429
        NotReadyError           503
            ModelFolderError    503
            DrainingError       503
        OverloadedError         503

A sentence never repeats what the caller sent, except the words that `oov: "error"` lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

MOST_ERRORS = 100
"""How many fields one error names at most."""


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of a request."""

    pointer: str
    """A JSON pointer (RFC 6901) into the request's body."""
    message: str


class PolysemeError(Exception):
    """The root of the tree; on its own, a fault of the service."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "The service failed"
    detail: ClassVar[str] = "Something went wrong that is not the request's fault."
    hint: ClassVar[str] = "Try again; if it stays, report it with the request id."
    request_id: str | None = None
    """of the request that a service refused, where a client raises it"""

    def __init__(self, detail: str | None = None, hint: str | None = None) -> None:
        self.sentence = detail or self.detail
        self.advice = hint or self.hint
        super().__init__(self.sentence)

    def members(self) -> dict[str, Any]:
        """What this error adds to its problem document."""
        return {}

    def headers(self) -> dict[str, str]:
        """What this error adds to the answer's headers."""
        return {}


class NotJsonError(PolysemeError):
    """The body cannot be read as JSON."""

    status, code, title = 400, "not_json", "The body is not JSON"
    detail = "The body is not well-formed JSON in UTF-8."
    hint = (
        "Send one JSON object, or as application/x-ndjson a JSON value in each line, with numbers"
        " that are finite and text that is valid Unicode."
    )


class MalformedError(PolysemeError):
    """What came is not HTTP as the server takes it (`http/worker.py`)."""

    status, code, title = 400, "malformed", "The request is not well-formed HTTP"
    detail = "The request line or a header is malformed or too long."
    hint = (
        "Send a request line of at most 4 KiB and headers of at most 8 KiB, as RFC 9112 has them."
    )


class UnauthorisedError(PolysemeError):
    """A key is required."""

    status, code, title = 401, "unauthorised", "A key is required"
    detail = "The key is missing or wrong."
    hint = "Send `Authorization: Bearer KEY` with a key of this service."

    def headers(self) -> dict[str, str]:
        """Name the scheme (RFC 9110, §11.6.1)."""
        return {"WWW-Authenticate": "Bearer"}


class UnknownModelError(PolysemeError):
    """No model has this name."""

    status, code, title = 404, "unknown_model", "No such model"
    detail = "No model of this name is here."
    hint = "GET /v1/models lists the names."


class UnknownRouteError(PolysemeError):
    """No route has this path."""

    status, code, title = 404, "unknown_route", "No such route"
    detail = "Nothing is served at this path."
    hint = "GET /openapi.json describes every route, /docs shows them."


class MethodNotAllowedError(PolysemeError):
    """The route does not have this method."""

    status, code, title = 405, "method_not_allowed", "No such method"
    detail = "This route does not answer to this method."
    hint = "The Allow header names the methods it has."

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        super().__init__()
        self.allowed = allowed

    def headers(self) -> dict[str, str]:
        """Name the methods (RFC 9110, §15.5.6)."""
        return {"Allow": ", ".join(sorted(self.allowed))}


class NotAcceptableError(PolysemeError):
    """No answer type is acceptable."""

    status, code, title = 406, "not_acceptable", "No such answer type"
    detail = "This route does not offer an answer type that the Accept header names."
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
        " also takes application/x-ndjson, a sentence in each line."
    )


class TooLargeError(PolysemeError):
    """Something is over a limit."""

    status, code, title = 413, "too_large", "Over a limit"
    hint = "Send less in one request, or raise the limit in the service's settings."

    def __init__(self, what: str, size: int | str, setting: str, limit: int) -> None:
        super().__init__(f"{what}: {size}, over the limit {setting} of {limit}.")
        self.extra = {"limit": limit, "size": size, "setting": setting}

    def members(self) -> dict[str, Any]:
        """Name limit and size for programs."""
        return self.extra


class InvalidError(PolysemeError):
    """A field is missing, unknown, of the wrong type or out of range."""

    status, code, title = 422, "invalid", "The request cannot be carried out"
    detail = "A field is missing, unknown, of the wrong type or out of range."
    hint = "`errors` names each field; /docs shows what it may be."

    def __init__(self, errors: Sequence[FieldError], hint: str | None = None) -> None:
        super().__init__(hint=hint)
        self.errors = errors

    def members(self) -> dict[str, Any]:
        """Name each field."""
        return {"errors": [{"pointer": e.pointer, "message": e.message} for e in self.errors]}


class UnknownWordError(InvalidError):
    """The vocabulary lacks words that the caller insists on."""

    code, title = "unknown_word", "Not in the vocabulary"
    detail = "The vocabulary lacks a word of the request."
    hint = 'Leave the words out, or ask with `oov: "zero"`.'

    def __init__(
        self, errors: Sequence[FieldError], words: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(errors, hint)
        self.words = words

    def members(self) -> dict[str, Any]:
        """List the words, where the caller asked for that."""
        return {**super().members(), **({"words": list(self.words)} if self.words else {})}


class OutOfRangeError(InvalidError):
    """The arithmetic leaves the range of the numbers."""

    code, title = "out_of_range", "The result is not a finite number"
    detail = "The arithmetic leaves the range of its floating-point type."
    hint = "Send smaller numbers."

    def __init__(self, error: FieldError | None = None, hint: str | None = None) -> None:
        super().__init__([error or FieldError("", "leads to numbers that are not finite")], hint)


class _Later:
    """A trait of errors that may be gone when the request is tried again."""

    retry_after: ClassVar[int] = 5

    def __init__(self, detail: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(detail)  # type: ignore[call-arg]  # PolysemeError's, by the order of bases
        self.seconds = self.retry_after if retry_after is None else retry_after

    def headers(self) -> dict[str, str]:
        """Say when to try again, in seconds."""
        return {"Retry-After": str(self.seconds)}


class RateLimitedError(_Later, PolysemeError):
    """The caller is over its rate."""

    status, code, title = 429, "rate_limited", "Too many requests"
    detail = "This caller is over its rate of requests."
    hint = "Wait as long as the Retry-After header says."


class NotReadyError(_Later, PolysemeError):
    """The service cannot answer yet, or no more."""

    status, code, title = 503, "not_ready", "Not ready"
    detail = "The service is not ready to answer."
    hint = "Wait as long as the Retry-After header says; GET /readyz tells the state."


class ModelFolderError(NotReadyError):
    """A model folder is missing something, damaged, or not what it says."""

    code, title = "broken_model", "The model cannot be used"
    detail = "The model's files are missing, damaged or not what the manifest says."
    hint = "`polyseme models verify NAME` on the server says what is wrong."


class DrainingError(NotReadyError):
    """The service is told to stop."""

    code, title = "draining", "The service is stopping"
    detail = "The service finishes the answers it has begun and takes no more requests."


class OverloadedError(_Later, PolysemeError):
    """As many requests as may wait are waiting."""

    retry_after = 1
    status, code, title = 503, "overloaded", "Too many requests at once"
    detail = "As many requests are waiting already as the service lets wait."
    hint = "Wait as long as the Retry-After header says, and a little more each time."
