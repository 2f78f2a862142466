"""Sentences in which words are tagged with their senses, from JSON lines or SemCor-like XML."""

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from polyseme.training.refusal import TrainingError
from polyseme.training.source import Read, expanded

LARGEST_DOCUMENT = 64 << 20
"""bytes of one XML document"""
LONGEST_LINE = 4 << 20
"""bytes of one line of JSON"""
_BREAKS = {"SENTENCE_BREAK", "PARAGRAPH_BREAK"}


class Tag(NamedTuple):
    """A word that has a sense."""

    token: int
    lemma: str
    sense: str


class Tagged(NamedTuple):
    """A sentence, cut into tokens, with its tags."""

    tokens: list[str]
    tags: list[Tag]


_Text = Annotated[str, Field(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _TagLine(_Strict):
    token: int = Field(ge=0)
    lemma: _Text
    sense: _Text


class _Line(_Strict):
    """One line of JSON."""

    tokens: list[_Text] = Field(max_length=100_000)
    tags: list[_TagLine]

    @model_validator(mode="after")
    def _within(self) -> "_Line":
        if any(tag.token >= len(self.tokens) for tag in self.tags):
            raise ValueError("a tag's token is beyond the last one")
        return self


def tagged(path: Path, read: Read = lambda _: None) -> Iterator[Tagged]:
    """Yield the tagged sentences of a file, of an archive's files, or of a folder's.

    Raises TrainingError where something is not one.
    """
    for file in files_of(path):
        yield from _file(file, read)


def files_of(path: Path) -> list[Path]:
    """The file itself, or the .xml and .jsonl files in a folder and its folders, sorted."""
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.rglob("*") if p.is_file() and _told(p.name))
    if not files:
        raise TrainingError(f"{path.name}: the folder has no .xml and no .jsonl file.")
    return files


def _told(name: str) -> bool:
    stem = name.lower()
    for ending in (".gz", ".bz2", ".xz", ".zst"):
        stem = stem.removesuffix(ending)
    return stem.endswith((".xml", ".jsonl"))


def _file(path: Path, read: Read) -> Iterator[Tagged]:
    with expanded(path, read) as file:
        head = _Peeked(file)
        start = head.head(512)
        if _is_tar(start):
            yield from _archive(head, path.name)
        elif start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            yield from _document(head, path.name)
        else:
            yield from _json_lines(head, path.name)


def _is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar"


class _Peeked:
    """A stream whose first bytes have been looked at, read forwards only."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._ahead = file, b""

    def head(self, count: int) -> bytes:
        """Look at the first bytes without taking them."""
        while len(self._ahead) < count and (more := self._file.read(count - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, count: int) -> bytes:
        """Read some bytes, fewer at the end."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken + self._file.read(count - len(taken)) if len(taken) < count else taken

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the lines; one that is longer than `most` comes cut."""
        rest = b""
        while chunk := self.read(1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > most:
                yield rest
                return
        if rest:
            yield rest


def _json_lines(file: _Peeked, name: str) -> Iterator[Tagged]:
    for number, line in enumerate(file.lines(LONGEST_LINE), 1):
        if len(line) > LONGEST_LINE:
            raise TrainingError(f"{name}, line {number}: longer than {LONGEST_LINE} bytes.")
        if not line.strip():
            continue
        try:
            one = _Line.model_validate_json(line)
        except ValidationError as error:
            raise TrainingError(f"{name}, line {number}: {_problem(error)}.") from None
        yield Tagged(one.tokens, [Tag(t.token, t.lemma, t.sense) for t in one.tags])


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _archive(file: _Peeked, name: str) -> Iterator[Tagged]:
    """The XML documents in an archive, read where they are; nothing is written to the disk."""
    try:
        with tarfile.open(fileobj=file, mode="r|") as tar:  # type: ignore[call-overload]
            for member in tar:
                inside = tar.extractfile(member) if member.name.endswith(".xml") else None
                if inside is not None:
                    yield from _document(inside, Path(member.name).name)
    except tarfile.TarError:
        raise TrainingError(f"{name}: the archive is damaged or cut off.") from None


def _document(file: Any, name: str) -> Iterator[Tagged]:
    """The sentences of a document of `word` elements.

    An element has `text`, and where it is tagged `lemma`, `pos` and `sense`; `break_level` tells
    where a sentence begins.
    """
    data: bytes = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise TrainingError(f"{name}: larger than {LARGEST_DOCUMENT >> 20} MiB; split it.")
    words: list[dict[str, str]] = []
    for word in _words(data, name):
        if word.get("break_level") in _BREAKS and words:
            yield _sentence(words)
            words = []
        words.append(word)
    if words:
        yield _sentence(words)


def _words(data: bytes, name: str) -> Sequence[dict[str, str]]:
    try:
        from defusedxml import DefusedXmlException  # noqa: PLC0415 - an extra
        from defusedxml.ElementTree import ParseError, fromstring  # noqa: PLC0415 - an extra
    except ImportError:
        raise TrainingError("Reading XML needs defusedxml: pip install 'polyseme[train]'") from None
    try:
        return [dict(word.attrib) for word in fromstring(data).iter("word")]
    except DefusedXmlException:
        raise TrainingError(f"{name}: the XML declares entities, which is not read.") from None
    except (ParseError, ValueError, LookupError):
        raise TrainingError(f"{name}: this is not well-formed XML.") from None


def _sentence(words: Sequence[dict[str, str]]) -> Tagged:
    tags = [
        Tag(place, f"{word['lemma']}/{word.get('pos', '')}".lower(), word["sense"])
        for place, word in enumerate(words)
        if word.get("lemma") and word.get("sense")
    ]
    return Tagged([word.get("text", "") for word in words], tags)
