"""Texts in batches of bounded size, one request each."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from polyseme.client.vectors import Text
from polyseme.errors import FieldError, InvalidError, TooLargeError

SENTENCES = 64
BYTES = 64 << 10


@dataclass(frozen=True)
class Batch:
    """Texts that go together, as they are written in JSON."""

    first: int
    """the number of the first one among all"""
    entries: list[bytes]


@dataclass
class Sizes:
    """How large a batch may be; what a service refuses makes it smaller for the rest."""

    sentences: int = SENTENCES
    text_bytes: int = BYTES

    def learn(self, error: TooLargeError, batch: Batch) -> None:
        """Stay under a limit that a batch of several was over: by `cut` it is no longer one."""
        number, limit = len(batch.entries), error.extra["limit"]
        if error.extra["setting"] == "max_sentences":
            named = isinstance(limit, int) and 0 < limit < number
            fewer = int(limit) if named else number // 2
            self.sentences = min(self.sentences, fewer)
        else:
            self.text_bytes = min(self.text_bytes, sum(map(len, batch.entries)) // 2)

    def cut(self, batch: Batch) -> list[Batch]:
        """Cut a batch that is larger than one may be by now."""
        parts, size = [Batch(batch.first, [])], 0
        for number, entry in enumerate(batch.entries, batch.first):
            if self.full(len(parts[-1].entries), size, entry):
                parts.append(Batch(number, []))
                size = 0
            parts[-1].entries.append(entry)
            size += len(entry)
        return parts

    def full(self, number: int, size: int, entry: bytes) -> bool:
        """Whether a batch has no place for one more text; an empty one has."""
        return number > 0 and (number >= self.sentences or size + len(entry) > self.text_bytes)


class Cutter:
    """Collects texts one by one and gives a batch back whenever one is full."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._entries: list[bytes] = []
        self._bytes = self._first = 0
        self._words = False

    def add(self, text: Text) -> Batch | None:
        """Add a text; return the batch that was full without it."""
        number = self._first + len(self._entries)
        entry, words = written(text, number), not isinstance(text, str)
        # A request has texts, or texts cut into words.
        full = self._sizes.full(len(self._entries), self._bytes, entry) or words != self._words
        batch = self.rest() if full else None
        self._entries.append(entry)
        self._bytes += len(entry)
        self._words = words
        return batch

    def rest(self) -> Batch | None:
        """Return what is left, None for nothing."""
        if not self._entries:
            return None
        batch = Batch(self._first, self._entries)
        self._first += len(self._entries)
        self._entries, self._bytes = [], 0
        return batch


def batches(texts: Iterable[Text], sizes: Sizes) -> Iterator[Batch]:
    """Cut texts into batches, and read no further ahead than the one that is made."""
    cutter = Cutter(sizes)
    for text in texts:
        if batch := cutter.add(text):
            yield batch
    if batch := cutter.rest():
        yield batch


async def batches_async(
    texts: Iterable[Text] | AsyncIterable[Text], sizes: Sizes
) -> AsyncIterator[Batch]:
    """Do the same with texts that may come asynchronously."""
    cutter = Cutter(sizes)
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            if batch := cutter.add(text):
                yield batch
    else:
        for text in texts:
            if batch := cutter.add(text):
                yield batch
    if batch := cutter.rest():
        yield batch


def written(text: Text, number: int) -> bytes:
    """A text in JSON; raise TypeError or InvalidError for what is none."""
    value: Any = text if isinstance(text, str) else list(text)
    if not isinstance(value, str) and not all(isinstance(word, str) for word in value):
        raise TypeError(f"Text {number} is neither a string nor a list of words.")
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        error = FieldError(f"/input/{number}", "is not valid Unicode")
    raise InvalidError([error], "Leave out halves of surrogate pairs.")
