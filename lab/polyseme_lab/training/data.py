"""Read the training data into arrays: sentences of token IDs, and tagged occurrences in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Integers
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.progress import Progress
from polyseme.tokenizer import ResolvedToken, resolve_all, tokenize
from polyseme.tokenizer import words as split_words
from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.corpus import OnRead, sample_paragraphs, sha256
from polyseme_lab.training.tags import read_tagged, tag_files, word_of_lemma

MAX_TOKENS = 4000
"""Maximum number of tokens in a sentence or paragraph; longer ones are skipped."""


@dataclass(frozen=True)
class TrainingFiles:
    """The files of training data."""

    corpus: tuple[Path, ...] = ()
    tags: tuple[Path, ...] = ()

    def document(self) -> list[dict[str, Any]]:
        """Return the kind, name and sha256 of each file."""
        found = []
        for kind, paths in (("corpus", self.corpus), ("tags", self.tags)):
            for path in paths:
                for file in tag_files(path) if kind == "tags" else [path]:
                    name = file.name.encode(errors="replace").decode()
                    found.append({"kind": kind, "name": name, "sha256": sha256(file)})
        return found


@dataclass(frozen=True)
class TokenTable:
    """The distinct tokens of the data and their lower-case forms.

    It has E entries; the last one stands for all unknown tokens.
    """

    vectors: NDArray[np.float32]
    """[E, d]"""
    words: NDArray[np.int64]
    """[E], word IDs, equal for entries that differ only in case; −1 for the unknown entry"""
    word_bias: NDArray[np.float32] | None
    """[E]"""
    keys: tuple[str, ...]
    """[E], vocabulary entries, or the texts of composed tokens; empty for the unknown entry"""
    rows: NDArray[np.int64]
    """[E], rows of the vocabulary; −1 for composed and unknown tokens"""

    @property
    def unknown(self) -> int:
        """The index of the entry for unknown tokens, masked tokens and padding."""
        return len(self.keys) - 1


@dataclass(frozen=True)
class Sentences:
    """Concatenated sentences, as indices into a TokenTable."""

    entries: NDArray[np.int32]
    """[N]"""
    lowered: NDArray[np.int32]
    """[N], entries of the same words in lower case"""
    offsets: NDArray[np.int64]
    """[S + 1], the start of each sentence and the end of the last"""


@dataclass(frozen=True)
class Occurrences:
    """Labeled tokens. A label belongs to one group: a sense to a lemma, a word to a pseudo-word."""

    positions: NDArray[np.int64]
    """[m], indices into the entries of the sentences"""
    groups: NDArray[np.int64]
    """[m]"""
    labels: NDArray[np.int64]
    """[m], distinct across groups"""
    names: tuple[str, ...] = ()
    """names of the groups"""

    def __len__(self) -> int:
        return len(self.positions)

    def chosen(self, which: Integers | NDArray[np.bool_]) -> "Occurrences":
        """Select occurrences by index or mask."""
        return Occurrences(
            self.positions[which], self.groups[which], self.labels[which], self.names
        )


@dataclass(frozen=True)
class TokenizedData:
    """The tokenized training files: the sentences with tags, then those of the corpus."""

    table: TokenTable
    sentences: Sentences
    tagged: Occurrences
    paragraphs_from: int
    """index of the first sentence of the corpus"""

    def facts(self) -> dict[str, int]:
        """Return the amount of data, for the manifest."""
        count = len(self.sentences.offsets) - 1
        return {
            "tagged_sentences": self.paragraphs_from,
            "tags": len(self.tagged),
            "paragraphs": count - self.paragraphs_from,
            "tokens": len(self.sentences.entries),
        }


@dataclass
class Lexicon:
    """Maps words to entries of a token table, in order of first occurrence."""

    model: Model
    composing: bool = True
    """whether words outside the vocabulary are composed of subwords, if the model has any"""
    _tokens: list[ResolvedToken] = field(default_factory=list)
    _entries: dict[int | str, int] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _pieces: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    UNKNOWN = -1

    def of_words(self, words: Iterable[str]) -> list[tuple[int, int]]:
        """Return two entries for each word of a sentence: as written, and in lower case."""
        return [(self._of_word(word), self._of_word(word.lower())) for word in words]

    def of_text(self, text: str) -> list[tuple[int, int]]:
        """Tokenize a text as the service does, and return the two entries of each token."""
        entries: list[tuple[int, int]] = []
        for start, end in split_words(text):
            chunk = text[start:end]
            if chunk not in self._pieces:
                tokens = tokenize(chunk, self.model.vocabulary, composes=self._composes)
                self._pieces[chunk] = tuple(
                    (self._entry(token), self._of_word(token.text.lower())) for token in tokens
                )
            entries += self._pieces[chunk]
        return entries

    def table(self) -> TokenTable:
        """Return the table of all words that have been added."""
        sentence = self.model.sentence(self._tokens)
        bias = sentence.word_bias
        return TokenTable(
            np.vstack([sentence.vectors, np.zeros((1, sentence.vectors.shape[1]), np.float32)]),
            np.append(sentence.words, -1),
            None if bias is None else np.append(bias, np.float32(0)).astype(np.float32),
            (*(token.key or token.text for token in self._tokens), ""),
            np.array([-1 if t.row is None else t.row for t in self._tokens] + [-1], np.int64),
        )

    def _of_word(self, word: str) -> int:
        if word not in self._words:
            (token,) = resolve_all([word], self.model.vocabulary, composes=self._composes)
            self._words[word] = self._entry(token)
        return self._words[word]

    def _composes(self, spelling: str) -> bool:
        return self.composing and self.model.composes(spelling)

    def _entry(self, token: ResolvedToken) -> int:
        """Return the entry of a token; each row and each composed spelling has its own entry."""
        key = token.composed if token.row is None else token.row
        if key is None:
            return self.UNKNOWN
        if key not in self._entries:
            self._entries[key] = len(self._tokens)
            self._tokens.append(token)
        return self._entries[key]


def concatenate(pairs: Sequence[NDArray[np.int32]], unknown: int) -> Sentences:
    """Concatenate sentences of entries [n, 2]; replace −1 by the entry `unknown`."""
    lengths = np.array([len(one) for one in pairs], np.int64)
    flat = np.concatenate([np.empty((0, 2), np.int32), *pairs])
    flat = np.where(flat < 0, np.int32(unknown), flat)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sentences(flat[:, 0].copy(), flat[:, 1].copy(), offsets)


def read_training_files(
    model: Model, files: TrainingFiles, config: TrainingConfig, progress: Progress
) -> TokenizedData:
    """Read all files; raise CommandError if one has the wrong format."""
    reader = _Reader(Lexicon(model, composing=not config.tune_embeddings), config)
    for path in files.tags:
        with progress.stage(f"reading {path.name}", _size(tag_files(path))) as bar:
            reader.read_tags(path, bar.advance)
    paragraphs_from = len(reader.sentences)
    if files.corpus:
        names = ", ".join(path.name for path in files.corpus)
        with progress.stage(f"reading {names}", _size(files.corpus)) as bar:
            paragraphs = sample_paragraphs(
                files.corpus, config.corpus_words, config.seed, bar.advance
            )
        for text in paragraphs:
            reader.add_sentence(reader.lexicon.of_text(text))
    table = reader.lexicon.table()
    sentences = concatenate(reader.sentences, table.unknown)
    return TokenizedData(table, sentences, reader.occurrences(), paragraphs_from)


def _size(paths: Sequence[Path]) -> int:
    size = 0
    for path in paths:
        try:
            size += path.stat().st_size
        except OSError:
            raise CommandError(f"{path.name}: the file does not exist or cannot be read.") from None
    return size


@dataclass
class _Reader:
    """Collects sentences and tagged occurrences."""

    lexicon: Lexicon
    config: TrainingConfig
    sentences: list[NDArray[np.int32]] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)
    _groups: list[int] = field(default_factory=list)
    _labels: list[int] = field(default_factory=list)
    _lemmas: dict[str, int] = field(default_factory=dict)
    _senses: dict[tuple[str, str], int] = field(default_factory=dict)
    _tokens: int = 0

    def add_sentence(self, entries: list[tuple[int, int]]) -> int | None:
        """Add a sentence; return the position of its first token, or None if it is skipped."""
        if not 1 < len(entries) <= MAX_TOKENS:
            return None
        begin, self._tokens = self._tokens, self._tokens + len(entries)
        self.sentences.append(np.array(entries, np.int32))
        return begin

    def read_tags(self, path: Path, on_read: OnRead) -> None:
        """Add the sentences with tagged words that are known and not in `leave_out`."""
        for sentence in read_tagged(path, on_read):
            targets = [
                tag
                for tag in sentence.tags
                if word_of_lemma(tag.lemma) not in self.config.leave_out
            ]
            entries = self.lexicon.of_words(sentence.tokens)
            targets = [tag for tag in targets if entries[tag.token][0] != Lexicon.UNKNOWN]
            begin = self.add_sentence(entries) if targets else None
            if begin is None:
                continue
            for tag in targets:
                self._positions.append(begin + tag.token)
                self._groups.append(self._lemmas.setdefault(tag.lemma, len(self._lemmas)))
                key = (tag.lemma, tag.sense)
                self._labels.append(self._senses.setdefault(key, len(self._senses)))

    def occurrences(self) -> Occurrences:
        """Return the tagged words."""
        positions, groups, labels = (
            np.array(one, np.int64) for one in (self._positions, self._groups, self._labels)
        )
        return Occurrences(positions, groups, labels, tuple(self._lemmas))
