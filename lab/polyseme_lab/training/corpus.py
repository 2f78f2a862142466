"""Samples of text, sentences with sense tags, and what is held out of training."""

import hashlib
import heapq
import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from polyseme.errors import CommandError, install_command, validation_message
from polyseme.words import is_unspaced
from polyseme_lab.files import OnRead, open_decompressed, read_archive, read_lines

MIN_WORDS = 4
"""Minimum number of words in a paragraph."""


def sample_paragraphs(
    paths: Sequence[Path], words: int, seed: int, on_read: OnRead = lambda _: None
) -> list[str]:
    """Return a uniform sample of lines, in file order, with about `words` words in total.

    Lines with fewer than MIN_WORDS words are skipped. Each line gets a random key, and the lines
    with the smallest keys are kept, so memory does not depend on the size of the files.
    """
    kept: list[tuple[float, int, int, str]] = []
    held = 0
    rng = np.random.default_rng([seed, 0xC0])
    lines = (line for path in paths for line in read_lines(path, on_read))
    for number, line in enumerate(lines):
        key = rng.random()
        length = line.count(" ") + 1
        if length < MIN_WORDS and is_unspaced(line):
            length = len(line) // 2  # most words of Han and kana have two letters
        if length < MIN_WORDS or (held >= words and key >= -kept[0][0]):
            continue
        heapq.heappush(kept, (-key, number, length, line))
        held += length
        while held - kept[0][2] >= words:
            held -= heapq.heappop(kept)[2]
    return [line for _, _, _, line in sorted(kept, key=itemgetter(1))]


_BREAKS = {"SENTENCE_BREAK", "PARAGRAPH_BREAK"}


_Text = Annotated[str, Field(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Tag(_Strict):
    """A tagged word."""

    token: int = Field(ge=0)
    """index of the token"""
    lemma: _Text
    sense: _Text


class TaggedSentence(_Strict):
    """The tokens of a sentence and its tags, a line of JSON."""

    tokens: list[_Text] = Field(max_length=100_000)
    tags: list[Tag]

    @model_validator(mode="after")
    def _within(self) -> "TaggedSentence":
        if any(tag.token >= len(self.tokens) for tag in self.tags):
            raise ValueError("a tag's token is beyond the last token")
        return self


def read_tagged(path: Path, on_read: OnRead = lambda _: None) -> Iterator[TaggedSentence]:
    """Yield the tagged sentences of a file, a tar archive of XML files, or a folder.

    Raises CommandError for any other format.
    """
    for file in tag_files(path):
        with open_decompressed(file) as stream:
            start = stream.read(512)
        if start[257:262] == b"ustar":
            for name, data in read_archive(file, (".xml",), on_read):
                yield from map(_xml_sentence, _read_xml(data, Path(name).name))
            continue
        with open_decompressed(file, on_read) as stream:
            if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
                yield from map(_xml_sentence, _read_xml(stream.read(), file.name))
            else:
                yield from _read_json_lines(stream, file.name)


def tag_files(path: Path) -> list[Path]:
    """Return the file itself, or the sorted .xml and .jsonl files in a folder, recursively.

    The files in a folder may be compressed.
    """
    if not path.is_dir():
        return [path]
    name = re.compile(r".*\.(xml|jsonl)(\.gz|\.bz2|\.xz|\.zst)*", re.IGNORECASE | re.DOTALL)
    files = sorted(p for p in path.rglob("*") if p.is_file() and name.fullmatch(p.name))
    if not files:
        raise CommandError(f"{path.name}: the folder has no .xml or .jsonl file.")
    return files


def _read_json_lines(file: IO[bytes], name: str) -> Iterator[TaggedSentence]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            sentence = TaggedSentence.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            message = validation_message(first)
            problem = f"{field}: {message}" if field else message
            raise CommandError(f"{name}, line {number}: {problem}.") from None
        yield sentence


def _read_xml(data: bytes, name: str) -> Iterator[list[dict[str, str]]]:
    """Yield the attributes of the `word` elements of each sentence of a document.

    An element has `text`, and `lemma`, `pos` and `sense` if it is tagged; `break_level` marks the
    beginning of a sentence.
    """
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        raise CommandError(f"Reading XML needs defusedxml: {install_command('train')}.") from None
    try:
        elements = [dict(word.attrib) for word in fromstring(data).iter("word")]
    except DefusedXmlException:
        raise CommandError(f"{name}: XML with entity declarations is rejected.") from None
    except (ParseError, ValueError, LookupError):
        raise CommandError(f"{name}: this is not well-formed XML.") from None
    words: list[dict[str, str]] = []
    for word in elements:
        if word.get("break_level") in _BREAKS and words:
            yield words
            words = []
        words.append(word)
    if words:
        yield words


def _xml_sentence(words: Sequence[dict[str, str]]) -> TaggedSentence:
    tags = []
    for i, word in enumerate(words):
        if word.get("lemma") and word.get("sense"):
            lemma = f"{word['lemma']}/{word.get('pos', '')}".lower()
            tags.append(Tag.model_construct(token=i, lemma=lemma, sense=word["sense"]))
    tokens = [word.get("text", "") for word in words]
    return TaggedSentence.model_construct(tokens=tokens, tags=tags)


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


def sample_held_out(count: int, size: int, seed: int) -> NDArray[np.int64]:
    """Draw `size` of the sentences or paragraphs to hold out, at most a tenth of them. -> [s]"""
    order = np.random.default_rng([seed, 0x0D]).permutation(count)
    return order[: min(size, count // 10)]
