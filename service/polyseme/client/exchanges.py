"""What is asked of a service and how its answers are read: everything but the sending.

An exchange yields questions, is sent the answers, and returns what they say; `remote.py` and
`asynchronous.py` carry the same ones, each in its way. Every question may be repeated: a service
keeps nothing of what it is asked.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import numpy as np
import orjson
import pybase64
from numpy.typing import ArrayLike, NDArray

from polyseme.client import archive, results
from polyseme.client.batches import Batch, Sizes
from polyseme.client.errors import misshapen
from polyseme.client.problems import problem_of
from polyseme.client.vectors import Sentence, row
from polyseme.encoding.choice import Choice
from polyseme.encoding.compare import Occurrence
from polyseme.encoding.pooling import Pooling
from polyseme.errors import FieldError, InvalidError, TooLargeError
from polyseme.tokenizer import Case

JSON, NPZ = "application/json", "application/x-npz"
_OK = 200
_T = TypeVar("_T")


@dataclass(frozen=True)
class Question:
    """A request, but for the address and the key."""

    method: str
    path: str
    accept: str = JSON
    body: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """A response, whole."""

    status: int
    media: str
    content: bytes
    retry_after: int | None = None

    def require(self, media: str, first: int = 0) -> bytes:
        """Return the content; raise the error that the answer is, or AnswerError.

        `first` is the number of the first text that was asked about.
        """
        if self.status != _OK:
            raise problem_of(self.status, self.media, self.content, self.retry_after, first)
        if self.media != media:
            raise misshapen()
        return self.content


Exchange: TypeAlias = Generator[Question, Answer, _T]


class Exchanges:
    """What is asked of one model, None for the service's default one."""

    def __init__(self, model: str | None, sizes: Sizes) -> None:
        self._model, self._sizes = model, sizes

    def encode(self, batch: Batch, choice: Choice) -> Exchange[list[Sentence]]:
        """Encode a batch."""
        fields = _fields(choice)
        found: list[Sentence] = []
        for part, content in (yield from self._parts(batch, "/v1/encode", NPZ, fields)):
            found += archive.sentences(content, choice, len(part.entries))
        return found

    def embed(
        self, batch: Batch, pooling: Pooling | None, dimensions: int | None
    ) -> Exchange[NDArray[np.float32]]:
        """Make one vector of each sentence. -> [S, d]"""
        fields: dict[str, Any] = {"encoding_format": "base64", "wordless": "zero"}
        wishes = {"pooling": pooling, "dimensions": dimensions}
        fields |= {name: wish for name, wish in wishes.items() if wish is not None}
        parts = yield from self._parts(batch, "/v1/embeddings", JSON, fields)
        return np.concatenate([_vectors(c, len(part.entries), dimensions) for part, c in parts])

    def _parts(
        self, batch: Batch, path: str, accept: str, fields: Mapping[str, Any]
    ) -> Exchange[list[tuple[Batch, bytes]]]:
        """Ask about a batch, in as many parts as the service wants; what it answers to each."""
        found: list[tuple[Batch, bytes]] = []
        waiting = [batch]
        while waiting:
            part, *rest = self._sizes.cut(waiting.pop())
            waiting += reversed(rest)
            try:
                answer = yield Question("POST", path, accept, self._body(part, fields))
                found.append((part, answer.require(accept, part.first)))
            except TooLargeError as error:
                self._learn(part, error)
                waiting.append(part)
        return found

    def compare(
        self, given: Sequence[Occurrence | tuple[str, str]], neighbors: int, case: Case
    ) -> Exchange[results.Comparison]:
        """Compare occurrences."""
        occurrences = [_occurrence(one) for one in results.given_occurrences(given)]
        fields = {"occurrences": occurrences, "neighbors": neighbors, "case": case}
        document = yield from self._ask("/v1/compare", fields)
        with _reading():
            return results.comparison_of(document)

    def neighbors(
        self, near: str | ArrayLike, k: int, case: Case
    ) -> Exchange[list[results.Neighbour]]:
        """Name the words that are near."""
        where = {"word": near} if isinstance(near, str) else {"vector": row(near)}
        document = yield from self._ask("/v1/neighbors", {**where, "k": k, "case": case})
        with _reading():
            return results.neighbours_of(document["neighbors"])

    def trace(self, text: str, layer: int, case: Case) -> Exchange[results.Trace]:
        """Follow the arithmetic of a layer."""
        fields = {"text": text, "layer": layer, "case": case}
        document = yield from self._ask("/v1/trace", fields)
        with _reading():
            return results.trace_of(document)

    def models(self) -> Exchange[list[results.ModelFacts]]:
        """List the models."""
        answer = yield Question("GET", "/v1/models")
        content = answer.require(JSON)
        with _reading():
            return results.models_of(orjson.loads(content))

    def model(self) -> Exchange[results.ModelFacts]:
        """Say which model answers."""
        if self._model is not None:
            answer = yield Question("GET", f"/v1/models/{quote(self._model, safe='')}")
            content = answer.require(JSON)
            with _reading():
                return results.model_of(orjson.loads(content))
        for one in (yield from self.models()):
            if one.default:
                return one
        raise misshapen()

    def _ask(self, path: str, fields: Mapping[str, Any]) -> Exchange[Any]:
        """Ask a question in JSON, and read the answer as JSON."""
        answer = yield Question("POST", path, JSON, _written(self._named(fields)))
        content = answer.require(JSON)
        with _reading():
            return orjson.loads(content)

    def _body(self, batch: Batch, fields: Mapping[str, Any]) -> bytes:
        """A body whose texts are written already."""
        rest = _written(self._named(fields))[1:]
        return b'{"input":[%b],%b' % (b",".join(batch.entries), rest)

    def _named(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**fields, **({} if self._model is None else {"model": self._model})}

    def _learn(self, batch: Batch, error: TooLargeError) -> None:
        """Ask for less from now on; raise the error where that would not help."""
        if len(batch.entries) == 1 or error.extra["setting"] == "max_sentence_tokens":
            raise error
        self._sizes.learn(error, batch)


@contextmanager
def _reading() -> Iterator[None]:
    """Raise AnswerError where what is read is not what it should be."""
    try:
        yield
    except Exception:  # noqa: BLE001 - a document of anybody
        raise misshapen() from None


def _fields(choice: Choice) -> dict[str, Any]:
    """A choice as the fields of /v1/encode."""
    layers = choice.layers
    return {
        "include": sorted(choice.include),
        "layers": layers if isinstance(layers, str) else list(layers),
        "heads": "mean" if choice.mean_of_heads else "all",
        "case": choice.case,
        "truncate": choice.truncate,
        "dtype": choice.dtype,
        **({} if choice.oov is None else {"oov": choice.oov}),
    }


def _occurrence(one: Occurrence) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(one).items() if value is not None}
    if one.word is None:
        fields.pop("nth")
    return fields


def _written(fields: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        error = FieldError("", "a value is not valid Unicode, or not of a type that JSON has")
    raise InvalidError([error])


def _vectors(content: bytes, number: int, dimensions: int | None) -> NDArray[np.float32]:
    """Read the vectors of /v1/embeddings; raise AnswerError where they are not. -> [S, d]"""
    with _reading():
        data = orjson.loads(content)["data"]
        _require([one["index"] for one in data] == list(range(number)))
        rows = [pybase64.b64decode(one["embedding"], validate=True) for one in data]
        width = len(rows[0]) // 4
        vectors = np.frombuffer(b"".join(rows), "<f4").reshape(number, width)
        _require(width == (dimensions or width) > 0 and {len(row) for row in rows} == {4 * width})
        _require(np.isfinite(vectors).all())
        return vectors


def _require(so: object) -> None:
    if not so:
        raise ValueError
