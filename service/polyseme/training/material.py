"""What is learned from, as numbers: sentences as entries of a table, and tagged occurrences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Integers
from polyseme.models.model import Model
from polyseme.tokenizer import Token, resolve_all, tokenize
from polyseme.tokenizer import words as cut


@dataclass(frozen=True)
class Table:
    """The words that a material has, and one more entry for all that are unknown, the last."""

    vectors: NDArray[np.float32]
    """[E, d]"""
    words: NDArray[np.int64]
    """[E], equal for entries that differ in case only; −1 for the unknown"""
    word_bias: NDArray[np.float32] | None
    """[E]"""
    keys: tuple[str, ...]
    """[E], the words as the vocabulary spells them"""
    rows: NDArray[np.int64]
    """[E], where in the vocabulary they are; −1 for those that are composed or unknown"""

    @property
    def unknown(self) -> int:
        """The entry of what is unknown, hidden or beyond the end of a sentence."""
        return len(self.keys) - 1


@dataclass(frozen=True)
class Sentences:
    """Sentences one after the other."""

    entries: NDArray[np.int32]
    """[N]"""
    lowered: NDArray[np.int32]
    """[N], the entries of the same words in lower case"""
    offsets: NDArray[np.int64]
    """[S + 1], where each begins and the last one ends"""


@dataclass(frozen=True)
class Occurrences:
    """Words in sentences that have a label within a group, such as a sense within a lemma."""

    positions: NDArray[np.int64]
    """[m], among the entries of the sentences"""
    groups: NDArray[np.int64]
    """[m]"""
    labels: NDArray[np.int64]
    """[m], different in different groups"""
    names: tuple[str, ...] = ()
    """of the groups"""

    def __len__(self) -> int:
        return len(self.positions)

    def chosen(self, which: Integers | NDArray[np.bool_]) -> "Occurrences":
        """Some of them."""
        return Occurrences(
            self.positions[which], self.groups[which], self.labels[which], self.names
        )


@dataclass
class Lexicon:
    """Turns words into entries, numbering each the first time it is met."""

    model: Model
    composing: bool = True
    """whether words that the vocabulary lacks are composed of subwords where the model can"""
    _tokens: list[Token] = field(default_factory=list)
    _entries: dict[int | str, int] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _pieces: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    UNKNOWN = -1

    def of_words(self, words: Iterable[str]) -> list[tuple[int, int]]:
        """The entry of each word of a sentence that is cut already, as written and lower-cased."""
        return [self._word(word) for word in words]

    def of_text(self, text: str) -> list[tuple[int, int]]:
        """The entries of a text's tokens, cut as the service cuts them."""
        entries: list[tuple[int, int]] = []
        for start, end in cut(text):
            chunk = text[start:end]
            if chunk not in self._pieces:
                self._pieces[chunk] = self._piece(chunk)
            entries += self._pieces[chunk]
        return entries

    def table(self) -> Table:
        """The table of all that was met."""
        sentence = self.model.sentence(self._tokens)
        bias = sentence.word_bias
        return Table(
            np.vstack([sentence.vectors, np.zeros((1, sentence.vectors.shape[1]), np.float32)]),
            np.append(sentence.words, -1),
            None if bias is None else np.append(bias, np.float32(0)).astype(np.float32),
            (*(token.key or token.text for token in self._tokens), ""),
            np.array([-1 if t.row is None else t.row for t in self._tokens] + [-1], np.int64),
        )

    def _piece(self, chunk: str) -> tuple[tuple[int, int], ...]:
        tokens = tokenize(chunk, self.model.vocabulary, composes=self._composes)
        return tuple((self._entry(token), self._lower(token.text)) for token in tokens)

    def _word(self, word: str) -> tuple[int, int]:
        if word not in self._words:
            self._words[word] = self._entry(self._resolved(word))
        return self._words[word], self._lower(word)

    def _lower(self, word: str) -> int:
        lower = word.lower()
        if lower not in self._words:
            self._words[lower] = self._entry(self._resolved(lower))
        return self._words[lower]

    def _resolved(self, word: str) -> Token:
        return resolve_all([word], self.model.vocabulary, composes=self._composes)[0]

    def _composes(self, spelling: str) -> bool:
        return self.composing and self.model.composes(spelling)

    def _entry(self, token: Token) -> int:
        """The entry of a token; a row of the vocabulary has one, and so has a composed spelling."""
        key = token.composed if token.row is None else token.row
        if key is None:
            return self.UNKNOWN
        if key not in self._entries:
            self._entries[key] = len(self._tokens)
            self._tokens.append(token)
        return self._entries[key]


def sentences_of(pairs: Sequence[NDArray[np.int32]]) -> Sentences:
    """Lay sentences of entries [n, 2] one after the other. Unknown words are −1 until `settled`."""
    lengths = np.array([len(one) for one in pairs], np.int64)
    flat = np.concatenate([np.empty((0, 2), np.int32), *pairs])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sentences(flat[:, 0].copy(), flat[:, 1].copy(), offsets)


def settled(sentences: Sentences, unknown: int) -> Sentences:
    """The sentences with the number that the unknown has in the table."""
    one, other = (
        np.where(entries < 0, np.int32(unknown), entries)
        for entries in (sentences.entries, sentences.lowered)
    )
    return Sentences(one, other, sentences.offsets)
