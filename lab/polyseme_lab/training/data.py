"""The training data as arrays: tokenized sentences, occurrences in them, and their contexts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Integers
from polyseme.errors import counted, listed
from polyseme.models.model import Model
from polyseme.terminal import Progress
from polyseme.tokenizer import ResolvedToken, Tokenizer
from polyseme.words import word_spans
from polyseme_lab.files import sha256
from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.corpus import (
    read_tagged,
    sample_paragraphs,
    tag_files,
    word_of_lemma,
)

MAX_TOKENS = 4000
"""Maximum number of tokens in a sentence or paragraph; longer ones are skipped."""


@dataclass(frozen=True)
class TrainingFiles:
    """The files of training data."""

    corpus: tuple[Path, ...] = ()
    tags: tuple[Path, ...] = ()

    def document(self) -> list[dict[str, Any]]:
        """Return the kind, name and sha256 of each file."""
        files = []
        for kind, paths in (("corpus", self.corpus), ("tags", self.tags)):
            for path in paths:
                for file in tag_files(path) if kind == "tags" else [path]:
                    name = file.name.encode(errors="replace").decode()
                    files.append({"kind": kind, "name": name, "sha256": sha256(file)})
        return files


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
    left_out: str = ""
    """a sentence about the tags of words in `leave_out`; empty if there are none"""

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
        for start, end in word_spans(text):
            chunk = text[start:end]
            if chunk not in self._pieces:
                tokens = self._tokenizer.look_up(chunk)
                self._pieces[chunk] = tuple(
                    (self._entry(token), self._of_word(token.text.lower())) for token in tokens
                )
            entries += self._pieces[chunk]
        return entries

    def table(self) -> TokenTable:
        """Return the table of all words that have been added."""
        sentence = self.model.inputs(self._tokens)
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
            (token,) = self._tokenizer.look_up([word])
            self._words[word] = self._entry(token)
        return self._words[word]

    @property
    def _tokenizer(self) -> Tokenizer:
        return self.model.tokenizer if self.composing else self.model.plain_tokenizer

    def _entry(self, token: ResolvedToken) -> int:
        """Return the entry of a token; each row and each composed spelling has its own entry."""
        key = token.composed if token.row is None else token.row
        if key is None:
            return self.UNKNOWN
        if key not in self._entries:
            self._entries[key] = len(self._tokens)
            self._tokens.append(token)
        return self._entries[key]


def read_training_files(
    model: Model, files: TrainingFiles, config: TrainingConfig, progress: Progress
) -> TokenizedData:
    """Read all files; raise CommandError if one has the wrong format.

    Tagged words that are unknown or in `leave_out` have no occurrence, and sentences without an
    occurrence are skipped. A warning names the words in `leave_out` that have tags.
    """
    lexicon = Lexicon(model, composing=not config.tune_embeddings)
    sentences: list[NDArray[np.int32]] = []
    rows: list[tuple[int, int, int]] = []  # position, group and label of each occurrence
    lemmas: dict[str, int] = {}
    senses: dict[tuple[str, str], int] = {}
    left_out: Counter[str] = Counter()
    begin = 0
    for path in files.tags:
        size = sum(file.stat().st_size for file in tag_files(path))
        with progress.stage(f"reading {path.name}", size) as bar:
            for sentence in read_tagged(path, bar.advance):
                entries = lexicon.of_words(sentence.tokens)
                lemmas_of = [word_of_lemma(tag.lemma) for tag in sentence.tags]
                left_out.update(word for word in lemmas_of if word in config.leave_out)
                targets = [
                    tag
                    for tag, word in zip(sentence.tags, lemmas_of, strict=True)
                    if word not in config.leave_out and entries[tag.token][0] != Lexicon.UNKNOWN
                ]
                if not targets or not 1 < len(entries) <= MAX_TOKENS:
                    continue
                sentences.append(np.array(entries, np.int32))
                for tag in targets:
                    group = lemmas.setdefault(tag.lemma, len(lemmas))
                    label = senses.setdefault((tag.lemma, tag.sense), len(senses))
                    rows.append((begin + tag.token, group, label))
                begin += len(entries)
    excluded = ""
    if left_out:
        words = listed([f"{word} {count}" for word, count in left_out.most_common()])
        excluded = (
            "--leave-out, by default the words of CoarseWSD-20, excludes"
            f" {counted(left_out.total(), 'tag')}: {words}."
        )
        progress.say(f"Warning: {excluded}")
    paragraphs_from = len(sentences)
    if files.corpus:
        names = ", ".join(path.name for path in files.corpus)
        size = sum(path.stat().st_size for path in files.corpus)
        with progress.stage(f"reading {names}", size) as bar:
            count, seed = config.corpus_words, config.seed
            paragraphs = sample_paragraphs(files.corpus, count, seed, bar.advance)
        for text in paragraphs:
            entries = lexicon.of_text(text)
            if 1 < len(entries) <= MAX_TOKENS:
                sentences.append(np.array(entries, np.int32))
    table = lexicon.table()
    positions, groups, labels = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    tagged = Occurrences(positions, groups, labels, tuple(lemmas))
    flat = np.concatenate([np.empty((0, 2), np.int32), *sentences])
    flat[flat == Lexicon.UNKNOWN] = table.unknown
    offsets = np.cumsum([0, *map(len, sentences)])
    whole = Sentences(flat[:, 0].copy(), flat[:, 1].copy(), offsets)
    return TokenizedData(table, whole, tagged, paragraphs_from, excluded)


RANK_SPREAD = 0.05
"""Width of the range of frequency ranks from which the words of a pseudo-word are drawn, relative
to the rank; the range has at least ten ranks for each of these words."""
MIN_OCCURRENCES = 5
"""Minimum number of occurrences of a target word in the corpus."""
MAX_FREQUENCY = 0.0005
"""Maximum relative frequency of a target word that occurs more than 100 times; more frequent words
are mostly function words."""
SHORT = (2, 8)
"""Minimum and maximum number of words on either side of the target in a truncated context."""


@dataclass(frozen=True)
class Draw:
    """The occurrences of one step."""

    occurrences: Occurrences
    hidden: NDArray[np.bool_]
    """[m], whether to replace all occurrences of the target word by the unknown token"""


def by_group(occurrences: Occurrences) -> list[NDArray[np.int64]]:
    """Return the indices of the occurrences in each group."""
    order = np.argsort(occurrences.groups, kind="stable")
    _, starts = np.unique(occurrences.groups[order], return_index=True)
    return np.split(order, starts[1:]) if len(order) else []


class LemmaSampler:
    """Samples occurrences of lemmas with tagged senses."""

    def __init__(self, occurrences: Occurrences) -> None:
        self._all = occurrences
        self._parts = []
        for part in by_group(occurrences):
            # Lemmas with several senses, one of which occurs several times.
            counts = np.unique(self._all.labels[part], return_counts=True)[1]
            if len(counts) > 1 and int(counts.max()) > 1:
                self._parts.append(part)
        weights = np.sqrt([len(part) for part in self._parts])
        self._weights = weights / weights.sum() if len(weights) else weights

    def __len__(self) -> int:
        return len(self._parts)

    def draw(self, rng: np.random.Generator, groups: int, most: int) -> Draw:
        """Draw at most `groups` lemmas, and at most `most` occurrences of each.

        Rare senses are overrepresented.
        """
        count = min(groups, len(self))
        drawn = []
        for number in rng.choice(len(self), count, replace=False, p=self._weights):
            part = self._parts[number]
            if len(part) > most:
                _, inverse, counts = np.unique(
                    self._all.labels[part], return_inverse=True, return_counts=True
                )
                weights = 1 / np.sqrt(counts[inverse])
                part = rng.choice(part, most, replace=False, p=weights / weights.sum())
            drawn.append(part)
        which = np.concatenate(drawn)
        return Draw(self._all.chosen(which), np.zeros(len(which), np.bool_))


class PseudoWordSampler:
    """Samples occurrences of pseudo-words: sets of words, labeled by the word that occurs."""

    def __init__(
        self,
        table: TokenTable,
        sentences: Sentences,
        left_out: Iterable[str],
        size: int,
        commonest: int | None = None,
    ) -> None:
        """Index the sentences of the corpus.

        A pseudo-word has `size` words of the corpus that have only letters and are not in
        `left_out`, which is casefolded. Only the `commonest` most frequent of these words are used,
        all if it is None.
        """
        words = table.words[sentences.entries]
        counts = np.bincount(words[words >= 0], minlength=int(table.words.max(initial=0)) + 1)
        usable = (counts >= MIN_OCCURRENCES) & (counts <= max(MAX_FREQUENCY * len(words), 100))
        spelled = zip(table.words[:-1].tolist(), table.keys[:-1], strict=True)
        usable[[w for w, key in spelled if not key.isalpha() or key.casefold() in left_out]] = False
        self.size = size
        self.by_frequency = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        self.by_frequency = self.by_frequency[usable[self.by_frequency]][:commonest]
        self._order = np.argsort(words, kind="stable")
        self._starts = np.searchsorted(words[self._order], np.arange(len(counts) + 1))

    def __len__(self) -> int:
        return len(self.by_frequency)

    def restricted(self, words: NDArray[np.int64]) -> "PseudoWordSampler":
        """Return a sampler of some of the words, given in order of frequency."""
        other = copy(self)
        other.by_frequency = words
        return other

    def draw(self, rng: np.random.Generator, groups: int, each: int) -> Draw:
        """Draw `groups` pseudo-words and at most `each` occurrences of each of their words."""
        positions, numbers, labels = [], [], []
        for group in range(groups):
            # The words of a pseudo-word have similar frequencies.
            rank = int(rng.integers(len(self)))
            spread = min(len(self), max(10 * self.size, int(RANK_SPREAD * rank)))
            first = max(0, min(rank - spread // 2, len(self) - spread))
            near = self.by_frequency[first : first + spread]
            for word in rng.choice(near, min(self.size, len(near)), replace=False):
                occurring = self._order[self._starts[word] : self._starts[word + 1]]
                drawn = rng.choice(occurring, min(each, len(occurring)), replace=False)
                positions.append(drawn)
                numbers.append(np.full(len(drawn), group))
                labels.append(np.full(len(drawn), group * len(self._starts) + word))
        occurrences = Occurrences(
            np.concatenate(positions), np.concatenate(numbers), np.concatenate(labels)
        )
        return Draw(occurrences, np.ones(len(occurrences), np.bool_))


def merge_draws(draws: Sequence[Draw]) -> Draw:
    """Concatenate draws, renumbering groups and labels to keep them distinct."""
    parts, group, label = [], 0, 0
    for draw in draws:
        part = draw.occurrences
        parts.append((part.positions, part.groups + group, part.labels + label))
        group += int(part.groups.max(initial=-1)) + 1
        label += int(part.labels.max(initial=-1)) + 1
    positions, groups, labels = map(np.concatenate, zip(*parts, strict=True))
    hidden = np.concatenate([draw.hidden for draw in draws])
    return Draw(Occurrences(positions, groups, labels), hidden)


@dataclass(frozen=True)
class Contexts:
    """Contexts as entries of the token table."""

    rows: NDArray[np.int32]
    """[m, n], entries; the unknown entry for hidden words, dropped words and padding"""
    targets: NDArray[np.int64]
    """[m], the position of the target in each context"""


@dataclass(frozen=True)
class ContextReader:
    """Reads the contexts of occurrences, in full or augmented."""

    table: TokenTable
    sentences: Sentences

    def whole(self, draw: Draw, window: int) -> Contexts:
        """Return the contexts of up to `window` words on either side."""
        reach = np.full(len(draw.occurrences), window, np.int64)
        lowered = np.zeros(len(reach), np.bool_)
        return self._read(draw, reach, lowered)

    def augmented(self, draw: Draw, config: TrainingConfig, rng: np.random.Generator) -> Contexts:
        """Return contexts with random truncation, lower case, hiding and dropout, as configured."""
        m = len(draw.occurrences)
        short = rng.integers(SHORT[0], SHORT[1] + 1, m)
        reach = np.where(rng.random(m) < config.cut, short, config.window)
        lowered = rng.random(m) < config.lower
        draw = Draw(draw.occurrences, draw.hidden | (rng.random(m) < config.hide))
        contexts = self._read(draw, reach, lowered)
        dropped = rng.random(contexts.rows.shape) < config.key_dropout
        dropped[np.arange(m), contexts.targets] = False
        contexts.rows[dropped] = self.table.unknown
        return contexts

    def _read(self, draw: Draw, reach: NDArray[np.int64], lowered: NDArray[np.bool_]) -> Contexts:
        positions, unknown = draw.occurrences.positions, self.table.unknown
        offsets = self.sentences.offsets
        sentence = np.searchsorted(offsets, positions, side="right") - 1
        first = np.maximum(offsets[sentence], positions - reach)
        end = np.minimum(offsets[sentence + 1], positions + reach + 1)
        indices = first[:, None] + np.arange(int((end - first).max(initial=1)))  # [m, n]
        inside = indices < end[:, None]
        indices = np.where(inside, indices, first[:, None])
        rows = self.sentences.entries[indices]
        if lowered.any():
            rows = np.where(lowered[:, None], self.sentences.lowered[indices], rows)
        rows = np.where(inside, rows, unknown)
        targets = positions - first
        words = self.table.words[rows]
        same_word = words == words[np.arange(len(rows)), targets][:, None]
        rows[same_word & draw.hidden[:, None]] = unknown
        return Contexts(rows, targets)
