"""From files to a lesson: what is read, what of it is trained on and what is held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.models.model import Model
from polyseme.training.corpus import sample
from polyseme.training.groups import is_lemma_held_out, word_of
from polyseme.training.material import (
    Lexicon,
    Occurrences,
    Sentences,
    Table,
    sentences_of,
    settled,
)
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError
from polyseme.training.source import Read, digest
from polyseme.training.tags import files_of, tagged

Reading: TypeAlias = Callable[[str, int], Read]
"""Is told the name of what is read and its size in bytes; gives what is told of its course."""
LONGEST = 4000
"""Tokens of a sentence or paragraph; what is longer is left out."""


@dataclass(frozen=True)
class Sources:
    """The files that are learned from."""

    corpus: tuple[Path, ...] = ()
    tags: tuple[Path, ...] = ()

    def document(self) -> list[dict[str, Any]]:
        """Their names, and the sha256 of each."""
        found = []
        for kind, paths in (("corpus", self.corpus), ("tags", self.tags)):
            for path in paths:
                for file in files_of(path) if kind == "tags" else [path]:
                    name = file.name.encode(errors="replace").decode()
                    found.append({"kind": kind, "name": name, "sha256": digest(file)})
        return found


@dataclass(frozen=True)
class Material:
    """All that was read, as numbers."""

    table: Table
    sentences: Sentences
    tagged: Occurrences
    paragraphs_from: int
    """the first of the sentences that comes from the corpus"""

    def facts(self) -> dict[str, int]:
        """How much it is."""
        count = len(self.sentences.offsets) - 1
        return {
            "tagged_sentences": self.paragraphs_from,
            "tags": len(self.tagged),
            "paragraphs": count - self.paragraphs_from,
            "tokens": len(self.sentences.entries),
        }


@dataclass
class _Gathered:
    """What is being read."""

    lexicon: Lexicon
    recipe: Recipe
    sentences: list[NDArray[np.int32]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    lemmas: dict[str, int] = field(default_factory=dict)
    senses: dict[tuple[str, str], int] = field(default_factory=dict)
    tokens: int = 0

    def sentence(self, entries: list[tuple[int, int]]) -> int | None:
        """Take a sentence; return where it begins, None where it is left out."""
        if not 1 < len(entries) <= LONGEST:
            return None
        begin, self.tokens = self.tokens, self.tokens + len(entries)
        self.sentences.append(np.array(entries, np.int32))
        return begin

    def tags(self, path: Path, read: Read) -> None:
        """Take the sentences of a file in which a word is tagged that can be a target."""
        for sentence in tagged(path, read):
            targets = [tag for tag in sentence.tags if not self._left_out(tag.lemma)]
            entries = self.lexicon.of_words(sentence.tokens)
            targets = [tag for tag in targets if entries[tag.token][0] != Lexicon.UNKNOWN]
            begin = self.sentence(entries) if targets else None
            if begin is None:
                continue
            for tag in targets:
                self.positions.append(begin + tag.token)
                self.groups.append(self.lemmas.setdefault(tag.lemma, len(self.lemmas)))
                key = (tag.lemma, tag.sense)
                self.labels.append(self.senses.setdefault(key, len(self.senses)))

    def occurrences(self) -> Occurrences:
        """The tagged words."""
        positions, groups, labels = (
            np.array(one, np.int64) for one in (self.positions, self.groups, self.labels)
        )
        return Occurrences(positions, groups, labels, tuple(self.lemmas))

    def _left_out(self, lemma: str) -> bool:
        return word_of(lemma) in self.recipe.leave_out


def gather(model: Model, sources: Sources, recipe: Recipe, reading: Reading) -> Material:
    """Read all sources; raise TrainingError where one is not what it should be."""
    gathered = _Gathered(Lexicon(model, composing=not recipe.tune_embeddings), recipe)
    for path in sources.tags:
        gathered.tags(path, reading(path.name, _size(files_of(path))))
    paragraphs_from = len(gathered.sentences)
    if sources.corpus:
        names = ", ".join(path.name for path in sources.corpus)
        read = reading(names, _size(sources.corpus))
        for text in sample(sources.corpus, recipe.corpus_words, recipe.seed, read):
            gathered.sentence(gathered.lexicon.of_text(text))
    table = gathered.lexicon.table()
    sentences = settled(sentences_of(gathered.sentences), table.unknown)
    return Material(table, sentences, gathered.occurrences(), paragraphs_from)


def _size(paths: Sequence[Path]) -> int:
    try:
        return sum(path.stat().st_size for path in paths)
    except OSError:
        raise TrainingError(f"{paths[0].name}: no such file, or it may not be read.") from None


def held_out_groups(names: Sequence[str], recipe: Recipe) -> NDArray[np.bool_]:
    """Which lemmas are never trained on. -> [groups]

    Those of one word are together, and the word is then no pseudo-word's either.
    """
    held = [is_lemma_held_out(name, recipe.held_out, recipe.split) for name in names]
    return np.array(held, np.bool_)
