"""Read sentences with sense tags, from JSON lines or the XML of Google's SemCor and MASC tags."""

import hashlib
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from polyseme.errors import CommandError, install_command
from polyseme.validation import validation_message
from polyseme_lab.training.corpus import OnRead, open_decompressed

MAX_DOCUMENT_BYTES = 64 << 20
"""Maximum size of one XML document."""
MAX_LINE_BYTES = 4 << 20
"""Maximum size of one line of JSON."""
_BREAKS = {"SENTENCE_BREAK", "PARAGRAPH_BREAK"}


class Tag(NamedTuple):
    """A tagged word."""

    token: int
    """index of the token"""
    lemma: str
    sense: str


class TaggedSentence(NamedTuple):
    """The tokens of a sentence and its tags."""

    tokens: list[str]
    tags: list[Tag]


_Text = Annotated[str, Field(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _TagJson(_Strict):
    token: int = Field(ge=0)
    lemma: _Text
    sense: _Text


class _LineJson(_Strict):
    tokens: list[_Text] = Field(max_length=100_000)
    tags: list[_TagJson]

    @model_validator(mode="after")
    def _within(self) -> "_LineJson":
        if any(tag.token >= len(self.tokens) for tag in self.tags):
            raise ValueError("a tag's token is beyond the last token")
        return self


def read_tagged(path: Path, on_read: OnRead = lambda _: None) -> Iterator[TaggedSentence]:
    """Yield the tagged sentences of a file, a tar archive of XML files, or a folder.

    Raises CommandError for any other format.
    """
    for file in tag_files(path):
        with open_decompressed(file, on_read) as opened:
            stream = _Peekable(opened)
            start = stream.peek(512)
            if start[257:262] == b"ustar":
                yield from _read_archive(stream, file.name)
            elif start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
                yield from _read_xml(stream, file.name)
            else:
                yield from _read_json_lines(stream, file.name)


def tag_files(path: Path) -> list[Path]:
    """Return the file itself, or the sorted .xml and .jsonl files in a folder, recursively.

    The files in a folder may be compressed.
    """
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.rglob("*") if p.is_file() and _has_tags(p.name))
    if not files:
        raise CommandError(f"{path.name}: the folder has no .xml or .jsonl file.")
    return files


def _has_tags(name: str) -> bool:
    stem = name.lower()
    for ending in (".gz", ".bz2", ".xz", ".zst"):
        stem = stem.removesuffix(ending)
    return stem.endswith((".xml", ".jsonl"))


class _Peekable:
    """A forward-only stream with a `peek` at its first bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._ahead = file, b""

    def peek(self, count: int) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._ahead) < count and (more := self._file.read(count - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, count: int) -> bytes:
        """Read `count` bytes, fewer at the end."""
        data, self._ahead = self._ahead[:count], self._ahead[count:]
        return data + self._file.read(count - len(data)) if len(data) < count else data

    def lines(self, max_bytes: int) -> Iterator[bytes]:
        """Yield the lines; one longer than `max_bytes` may be truncated and end the iteration."""
        rest = b""
        while chunk := self.read(1 << 16):
            *complete, rest = (rest + chunk).split(b"\n")
            yield from complete
            if len(rest) > max_bytes:
                yield rest
                return
        if rest:
            yield rest


def _read_json_lines(file: _Peekable, name: str) -> Iterator[TaggedSentence]:
    for number, line in enumerate(file.lines(MAX_LINE_BYTES), 1):
        if len(line) > MAX_LINE_BYTES:
            raise CommandError(f"{name}, line {number}: longer than {MAX_LINE_BYTES} bytes.")
        if not line.strip():
            continue
        try:
            one = _LineJson.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            message = validation_message(first)
            problem = f"{field}: {message}" if field else message
            raise CommandError(f"{name}, line {number}: {problem}.") from None
        yield TaggedSentence(one.tokens, [Tag(t.token, t.lemma, t.sense) for t in one.tags])


def _read_archive(file: _Peekable, name: str) -> Iterator[TaggedSentence]:
    """Read the XML documents of a tar archive without extracting it to disk."""
    try:
        with tarfile.open(fileobj=file, mode="r|") as tar:  # type: ignore[call-overload]
            for member in tar:
                if not member.name.endswith(".xml") or member.isdir():
                    continue
                if not member.isfile():
                    raise CommandError(f"{name}: an .xml file in the archive is a link.")
                yield from _read_xml(tar.extractfile(member), Path(member.name).name)
    except tarfile.TarError:
        raise CommandError(f"{name}: the archive is damaged or truncated.") from None


def _read_xml(file: Any, name: str) -> Iterator[TaggedSentence]:
    """Read a document of `word` elements.

    An element has `text`, and `lemma`, `pos` and `sense` if it is tagged; `break_level` marks the
    beginning of a sentence.
    """
    data: bytes = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise CommandError(f"{name}: larger than {MAX_DOCUMENT_BYTES >> 20} MiB; split it.")
    words: list[dict[str, str]] = []
    for word in _parse_xml(data, name):
        if word.get("break_level") in _BREAKS and words:
            yield _xml_sentence(words)
            words = []
        words.append(word)
    if words:
        yield _xml_sentence(words)


def _parse_xml(data: bytes, name: str) -> Sequence[dict[str, str]]:
    """Return the attributes of each `word` element."""
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        raise CommandError(f"Reading XML needs defusedxml: {install_command('train')}.") from None
    try:
        return [dict(word.attrib) for word in fromstring(data).iter("word")]
    except DefusedXmlException:
        raise CommandError(f"{name}: XML with entity declarations is rejected.") from None
    except (ParseError, ValueError, LookupError):
        raise CommandError(f"{name}: this is not well-formed XML.") from None


def _xml_sentence(words: Sequence[dict[str, str]]) -> TaggedSentence:
    tags = [
        Tag(index, f"{word['lemma']}/{word.get('pos', '')}".lower(), word["sense"])
        for index, word in enumerate(words)
        if word.get("lemma") and word.get("sense")
    ]
    return TaggedSentence([word.get("text", "") for word in words], tags)


def word_of_lemma(lemma: str) -> str:
    """Return the word of a lemma: `bank` for `bank/noun`."""
    return lemma.rsplit("/", 1)[0].casefold()


def is_lemma_held_out(lemma: str, share: float, seed: int) -> bool:
    """Return whether a lemma is held out of training, which depends only on its word."""
    return is_held_out(word_of_lemma(lemma), share, seed)


def is_held_out(word: str, share: float, seed: int) -> bool:
    """Return whether a word is held out of training, by a hash of the word and the seed."""
    digest = hashlib.blake2b(f"{seed}:{word}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
