"""A model behind a running service: its answers of /v1/encode, many sentences in each."""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import urllib3
from urllib3.util import Retry, Timeout, parse_url

from polyseme.engine.attention import Sentence
from polyseme.evaluation.occurrences import Words
from polyseme.evaluation.readings import Reading
from polyseme.evaluation.refusal import EvaluationError

BATCH, BATCH_WORDS = 128, 8192
"""Sentences and words of one request; where the service takes fewer, they are halved."""
_LARGEST = 1 << 30
"""Bytes that an answer may unpack to."""
_RETRIES = Retry(
    total=8,
    connect=2,
    status_forcelist=(429, 502, 503, 504),
    allowed_methods=None,
    backoff_factor=0.5,
    backoff_max=30,
    retry_after_max=120,
    raise_on_status=False,
    redirect=False,
)
_TIMEOUT = Timeout(connect=10, read=120)
_OK, _TOO_LARGE = 200, 413
_MISSHAPEN = (KeyError, TypeError, ValueError, IndexError, zipfile.BadZipFile, EOFError, OSError)


class Service:
    """A running Polyseme. Reads sentences as `LocalSource` does, with what it answers."""

    def __init__(self, url: str, model: str | None = None, key: str | None = None) -> None:
        self._root = _root(url)
        headers = {"User-Agent": "polyseme evaluate"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._pool = urllib3.PoolManager(headers=headers, retries=_RETRIES, timeout=_TIMEOUT)
        self.model = self._name(model)

    def __call__(self, sentences: Sequence[Words]) -> Iterator[Reading]:
        """Read sentences in batches."""
        for batch in _batches(sentences):
            yield from self._read(batch)

    def knows(self, words: Iterable[str]) -> list[bool]:
        """Whether words have a vector, from the vocabulary or composed."""
        alone: list[Words] = [(word,) for word in words]
        return [bool(reading.sentence.known[0]) for reading in self(alone)]

    def _name(self, wanted: str | None) -> str:
        """The name of the model that is to be measured, the service's default one if none is."""
        try:
            listed = orjson.loads(self._ask("GET", "/v1/models").data)["data"]
            names = {one["id"]: bool(one["default"]) for one in listed}
        except _MISSHAPEN:
            raise EvaluationError(_NO_POLYSEME) from None
        name = wanted or next((name for name, default in names.items() if default), None)
        if name is None or name not in names:
            raise EvaluationError(
                f"The service has no such model; it has {', '.join(sorted(names)) or 'none'}."
            )
        return name

    def _read(self, batch: Sequence[Words]) -> Iterator[Reading]:
        body = {"input": batch, "model": self.model, "include": ["static", "contextual"]}
        answer = self._ask("POST", "/v1/encode", orjson.dumps(body))
        if answer.status == _TOO_LARGE:
            yield from self._halved(batch, answer)
            return
        try:
            readings = list(_readings(answer.data, batch))
        except _MISSHAPEN:
            raise EvaluationError(_NO_POLYSEME) from None
        yield from readings

    def _halved(
        self, batch: Sequence[Words], answer: urllib3.BaseHTTPResponse
    ) -> Iterator[Reading]:
        if len(batch) == 1:
            raise EvaluationError(
                f"The service refuses a sentence of {len(batch[0])} words: {_detail(answer)}"
                " Raise its limit."
            )
        middle = len(batch) // 2
        yield from self._read(batch[:middle])
        yield from self._read(batch[middle:])

    def _ask(self, method: str, path: str, body: bytes | None = None) -> urllib3.BaseHTTPResponse:
        accept = "application/x-npz" if body else "application/json"
        headers = {**self._pool.headers, "Accept": accept, "Content-Type": "application/json"}
        try:
            answer = self._pool.request(
                method, f"{self._root}{path}", body=body, headers=headers, redirect=False
            )
        except urllib3.exceptions.HTTPError:
            raise EvaluationError(
                "The service does not answer at this address; start it with `polyseme serve`, or"
                " name another by --url."
            ) from None
        if answer.status not in {_OK, _TOO_LARGE}:
            raise EvaluationError(f"The service answers {answer.status}: {_detail(answer)}")
        return answer


_NO_POLYSEME = (
    "What answers at this address is not Polyseme, or another version of it; name another by --url."
)


def _root(url: str) -> str:
    try:
        parsed = parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parsed = parse_url("")
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query:
        raise EvaluationError("The address has to be one such as http://127.0.0.1:8000.")
    return url.rstrip("/")


def _batches(sentences: Sequence[Words]) -> Iterator[list[Words]]:
    batch: list[Words] = []
    words = 0
    for one in sentences:
        if batch and (len(batch) == BATCH or words + len(one) > BATCH_WORDS):
            yield batch
            batch, words = [], 0
        batch.append(one)
        words += len(one)
    if batch:
        yield batch


def _readings(data: bytes, batch: Sequence[Words]) -> Iterator[Reading]:
    """The sentences of an `.npz`; raise one of _MISSHAPEN where it is not what was asked for."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise ValueError
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        offsets, static, contextual = (arrays[k] for k in ("offsets", "static", "contextual"))
        facts = orjson.loads(arrays["tokens"].tobytes())
    lengths = [len(words) for words in batch]
    if np.diff(offsets).tolist() != lengths or static.shape != contextual.shape:
        raise ValueError
    if len(facts) != len(batch) or len(static) != sum(lengths):
        raise ValueError
    if not np.isfinite([static, contextual]).all():
        raise ValueError
    for number, fact in enumerate(facts):
        rows = slice(offsets[number], offsets[number + 1])
        yield Reading(_sentence(static[rows], fact["tokens"]), contextual=contextual[rows])


def _sentence(static: Any, tokens: Sequence[dict[str, Any]]) -> Sentence:
    """The sentence as `Model.sentence` makes it, but for the word bias, which stays there."""
    known = np.array([token["resolution"] != "oov" for token in tokens], np.bool_)
    folded = [(token["key"] or token["text"]).casefold() for token in tokens]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(folded))}
    words = np.array([numbers[word] for word in folded], np.int64)
    if not len(static) == len(known) == len(words):
        raise ValueError
    return Sentence(static, known, words)


def _detail(answer: urllib3.BaseHTTPResponse) -> str:
    """What the service says of its refusal, as far as it can be shown at a terminal."""
    try:
        said = orjson.loads(answer.data)["detail"]
    except _MISSHAPEN:
        said = ""
    shown = isinstance(said, str) and said.isprintable() and len(said) < 500  # noqa: PLR2004
    return said if shown and said else "it does not say why."
