"""A spaCy component that gives occurrences of words the senses of inventories."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyseme.integrations import open_encoder
from polyseme.senses.inventory import SenseInventory, load_inventory, read_inventory

# isort: off
from polyseme.integrations.spacy import BatchPipe  # first: without spaCy, it names the extra
from spacy.language import Language
from spacy.tokens import Doc, Token
# isort: on

NAME = "polyseme_senses"
_FIELDS = ("sense", "label", "confidence", "unsure")


@Language.factory(NAME, assigns=["doc._.senses", "token._.sense"])
class SenseTagger(BatchPipe):
    """Give each occurrence of the words of some inventories its sense.

    `inventories` are paths of files, which the pipeline contains when it is saved. A text is a
    sentence if an earlier component has set sentence boundaries, else the document. `doc._.senses`
    is a list with a dictionary for each occurrence, and `token._.sense` that of the token in which
    it starts: `word`, `start`, `end` (characters), `sense`, `label`, `confidence`, `unsure`.
    """

    def __init__(
        self,
        nlp: Language,  # noqa: ARG002 - spaCy passes it to every factory
        name: str,
        *,
        inventories: Sequence[str] = (),
        model: str | None = None,
        url: str | None = None,
    ) -> None:
        self.name, self._source = name, (model, url)
        self._inventories = [load_inventory(path) for path in inventories]

    def process(self, docs: Sequence[Doc]) -> None:
        """Tag some documents."""
        encoder = open_encoder(*self._source)
        texts: list[str] = []
        origins: list[tuple[int, int]] = []  # the document of each text, and where it starts
        for i, doc in enumerate(docs):
            doc._.set(NAME, [])
            units = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
            for unit in units:
                texts.append(unit.text)
                origins.append((i, unit.start_char))
        for inventory in self._inventories if texts else ():
            for occurrence in encoder.apply(inventory, texts).occurrences:
                i, first = origins[occurrence.text]
                start, end = first + (occurrence.start or 0), first + (occurrence.end or 0)
                fields = {field: getattr(occurrence, field) for field in _FIELDS}
                tag = {"word": inventory.word, "start": start, "end": end, **fields}
                docs[i]._.get(NAME).append(tag)
        for doc in docs:
            doc._.get(NAME).sort(key=lambda occurrence: occurrence["start"])

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        """Return the inventories."""
        del exclude
        return b"\n".join(inventory.to_json() for inventory in self._inventories)

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> "SenseTagger":
        """Read the inventories."""
        del exclude
        self._inventories = _read(data)
        return self

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write the inventories."""
        Path(path).write_bytes(self.to_bytes(exclude=exclude))

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "SenseTagger":
        """Read the inventories."""
        return self.from_bytes(Path(path).read_bytes(), exclude=exclude)


def _read(data: bytes) -> list[SenseInventory]:
    return [read_inventory(line) for line in data.splitlines() if line]


def _senses(doc: Doc) -> list[dict[str, Any]] | None:
    """Return the occurrences of a document; None if it was not tagged."""
    occurrences: Sequence[dict[str, Any]] | None = doc._.get(NAME)
    return None if occurrences is None else [*occurrences]  # a stored document has a tuple


def _sense(token: Token) -> dict[str, Any] | None:
    """Return the occurrence that starts in a token."""
    end = token.idx + len(token)
    inside = (one for one in _senses(token.doc) or () if token.idx <= one["start"] < end)
    return next(inside, None)


Doc.set_extension(NAME, default=None, force=True)
Doc.set_extension("senses", getter=_senses, force=True)
Token.set_extension("sense", getter=_sense, force=True)
