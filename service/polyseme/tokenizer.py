"""Tokenization: the words of a text, and the vocabulary entry of each.

GloVe's corpus was tokenized as in the Penn Treebank (`did` + `n't`), the corpora of Word2Vec and
fastText were not, and no word pattern fits all of them. So each word is looked up first, and is
split only if it is not in the vocabulary.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias, get_args

import regex

from polyseme.caches import Recent
from polyseme.spellings import (
    MAX_WORD_LENGTH,
    Case,
    Resolution,
    forms,
    number_forms,
    resolutions_of,
    spelling_key,
    spellings,
)
from polyseme.words import (
    CONTRACTION,
    ELISION,
    UNSPLIT,
    WORD,
    Span,
    core_of,
    is_unspaced,
    parts_of,
    segments,
    splits,
    visible,
    word_spans,
)

Text: TypeAlias = str | Sequence[str]
"""A sentence: a string to tokenize, or a list of words."""
CanCompose: TypeAlias = Callable[[str], bool]
"""A function that returns whether the subwords compose a vector for a spelling."""
_LONGEST = 16
"""Maximum characters of a chunk or a word that is cached; longer words are rare."""
_TOKEN_BYTES = 512
"""Maximum bytes of a token in a cache, with its three strings."""


class ResolvedToken(NamedTuple):
    """A token and its vocabulary entry.

    `start` and `end` are offsets in code points, None for tokens of a pretokenized sentence, and
    where `Tokenized` has the text.
    """

    text: str
    start: int | None
    end: int | None
    key: str | None
    """the vocabulary entry"""
    resolution: Resolution
    row: int | None
    composed: str | None = None
    """the spelling whose subwords compose the vector of a word outside the vocabulary"""


class Tokenized(NamedTuple):
    """The tokens of one sentence."""

    tokens: list[ResolvedToken]
    """the tokens, without offsets if there is a `text`"""
    truncated: int = 0
    """the number of words removed by truncation, which are counted up to a limit"""
    text: str | None = None
    """the text, from which the offsets are computed when somebody reads them"""

    @property
    def starts(self) -> list[int]:
        """The offset of each token, of a sentence with a `text`; a new list each time."""
        find, end = (self.text or "").find, 0
        # A word starts at the end of the one before it, or after white space.
        words = map(itemgetter(0), self.tokens)
        return [(end := find(word, end) + len(word)) - len(word) for word in words]

    def with_offsets(self) -> list[ResolvedToken]:
        """Return a new list of the tokens, with their offsets if there is a `text`."""
        if self.text is None:
            return self.tokens
        new = tuple.__new__  # takes half the time of `ResolvedToken(…)`
        return [
            new(ResolvedToken, (word, start, start + len(word), key, resolution, row, composed))
            for start, (word, _, _, key, resolution, row, composed) in zip(
                self.starts, self.tokens, strict=True
            )
        ]


class RowLookup(Protocol):
    """The part of a vocabulary that tokenization needs."""

    @property
    def turkic(self) -> bool:
        """Whether `ı` is the lower case of `I`, and `İ` the upper case of `i`."""

    @property
    def hides_digits(self) -> bool:
        """Whether numbers may be written with `#` or `0` for each digit."""

    @property
    def has_compounds(self) -> bool:
        """Whether an entry may consist of several words, such as `C++`."""

    def row(self, word: str) -> int | None:
        """Return the row of a word exactly as spelled, None if it is not in the vocabulary."""

    def candidates(self, key: str) -> Sequence[tuple[str, int]]:
        """Return the entries with a `spelling_key`, and their rows.

        Entries that `has_key` excludes may be missing.
        """


_PLAIN_WORD = re.compile(r"[A-Za-z][0-9A-Za-z]*(?:['-][0-9A-Za-z]+)+")
"""A word that needs no `WORD` to be recognized, like one of ASCII letters and digits."""
_PUNCTUATION = '.,;:!?()"'
"""Marks that do not belong to such a word that they surround."""
_BEFORE = {"", "(", "!", "?", ",", '"'}
"""Marks before a word; but `.NET` and `:D` may be entries."""
_EDGE = regex.compile(r"(?<!\w|\p{Sc}(?=\p{Nd}))|(?!\w)")
"""Where an entry may end; but `$5` is one word."""
_MAX_ENDS = 6
"""Maximum number of ends of an entry that are tried from one start in a chunk."""
_SEVERAL_WORDS = regex.compile(
    r"[\p{Han}\p{Hiragana}]{5,}|[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{M}]{13,}"
)
"""Letters of such texts that are several words; a foreign name in katakana may be longer."""
_MAX_WORD_LETTERS = 4
"""Up to so many letters without a vector are not called a text, but a word."""


def words_of(text: Text) -> Sequence[str]:
    """Return the words of a string, or a list of words unchanged."""
    if isinstance(text, str):
        return [text[start:end] for start, end in word_spans(text)]
    return text


def as_string(text: Text) -> str:
    """Return a text as a string; the words of a list are separated by spaces."""
    return text if isinstance(text, str) else " ".join(text)


def hashable(text: Text) -> Text:
    """Return a text as a string or a tuple of words."""
    return text if isinstance(text, str) else tuple(text)


def is_unsegmented(tokens: Sequence[ResolvedToken]) -> bool:
    """Return whether most letters of scripts without spaces, and several words, have no vector."""
    unknown = sum(len(t.text) for t in tokens if t.resolution == "oov" and is_unspaced(t.text))
    if unknown <= _MAX_WORD_LETTERS:
        return False
    return 2 * unknown > sum(len(token.text) for token in tokens if is_unspaced(token.text))


def no_subwords(_spelling: str) -> bool:
    """Return False: the `CanCompose` of models without subwords."""
    return False


def resolve(word: str, vocabulary: RowLookup, case: Case = "auto") -> ResolvedToken:
    """Return the token of one word, without splitting or composing it."""
    # Most words are in the vocabulary as written.
    if case != "lower" and len(word) <= MAX_WORD_LENGTH:
        row = vocabulary.row(word)
        if row is not None:
            return ResolvedToken(word, None, None, word, "exact", row)
    unknown = ResolvedToken(word, None, None, None, "oov", None)
    if len(word) > MAX_WORD_LENGTH:
        return unknown
    for form in (*forms(word), *number_forms(word, hides_digits=vocabulary.hides_digits)):
        token = _resolve_form(word, form, vocabulary, case)
        if token:
            return token
    return unknown


def _resolve_form(word: str, form: str, vocabulary: RowLookup, case: Case) -> ResolvedToken | None:
    """Return the token of a word, one form of which is an entry or a form of an entry.

    Entries whose closer form it is are preferred, then the first, which are more frequent.
    """
    resolutions = resolutions_of(form, case, turkic=vocabulary.turkic)
    for spelling, resolution in resolutions.items():
        # The word as written has been looked up already.
        row = None if spelling == word and case != "lower" else vocabulary.row(spelling)
        if row is not None:
            return ResolvedToken(word, None, None, spelling, resolution, row)
    candidates = vocabulary.candidates(spelling_key(form))
    entries = [(forms(entry), row) for entry, row in candidates]
    for spelling, resolution in resolutions.items():
        same = [(own.index(spelling), row, own[0]) for own, row in entries if spelling in own]
        if same:
            _, row, entry = min(same)
            return ResolvedToken(word, None, None, entry, resolution, row)
    return None


@dataclass(frozen=True)
class _Lexer:
    """Makes tokens without a cache and without offsets."""

    vocabulary: RowLookup
    case: Case
    composes: CanCompose

    def resolve(self, word: str) -> ResolvedToken:
        return resolve(word, self.vocabulary, self.case)

    def word_token(self, word: str) -> ResolvedToken:
        """Return the token of a word of a pretokenized sentence."""
        token = self.resolve(word)
        if token.row is not None or len(word) > MAX_WORD_LENGTH:
            return token
        return self._unsplit(token) or self._compose(token)

    def tokens(self, text: str) -> Iterator[ResolvedToken]:
        """Yield the tokens of a text.

        All pieces of one word are made at once; these are at most MAX_WORD_LENGTH tokens.
        """
        shown, offsets = visible(text)
        end = 0
        for chunk in shown.split():
            for word in self._words(chunk):
                tokens = [word]
                if word.row is None and len(word.text) <= MAX_WORD_LENGTH:
                    tokens = self.split_or_compose(word)
                if offsets is None:
                    yield from tokens
                    continue
                end = shown.index(word.text, end)
                for token in tokens:
                    start, end = end, end + len(token.text)
                    yield token._replace(text=text[offsets[start] : offsets[end - 1] + 1])

    def _words(self, chunk: str) -> Iterator[ResolvedToken]:
        """Yield the token of each word of a chunk between white space, without splitting.

        Adjacent words that are an entry, such as `C++`, are one word. They are not looked up in a
        chunk that is longer than a word may be.
        """
        if len(chunk) > MAX_WORD_LENGTH:
            for word in WORD.finditer(chunk):
                yield from map(self.resolve, parts_of(word[0]))
            return
        end = 0
        while match := WORD.search(chunk, end):
            token = None
            if match.end() < len(chunk) and self.vocabulary.has_compounds:
                token = self._longer_entry(chunk, *match.span())
            token = token or self.resolve(match[0])
            yield token
            end = match.start() + len(token.text)

    def _longer_entry(self, chunk: str, start: int, end: int) -> ResolvedToken | None:
        """Return the token of the longest entry that begins with a word and continues it.

        A vocabulary of texts that were split at white space has entries such as `word.` and `"the`.
        So an entry with punctuation around it is used only if it is more frequent than the word
        without it, and punctuation alone only in a chunk of nothing else, such as `:)`.
        """
        ends = [edge.start() for edge in islice(_EDGE.finditer(chunk, end + 1), _MAX_ENDS)]
        if start == 0 and ends[-1] != len(chunk):
            ends.append(len(chunk))
        for text in (chunk[start:end] for end in reversed(ends)):
            if not self.may_be_entry(text):
                continue
            token, core = self.resolve(text), core_of(text)
            if token.row is None or (not core and core_of(chunk)):
                continue
            if core in ("", text) or text[0] + text[-1] in ("[]", "{}"):
                return token
            row = self.resolve(core).row
            if row is None or token.row < row:
                return token
        return None

    def may_be_entry(self, text: str) -> bool:
        """Return whether a text of several words may be in the vocabulary."""
        others = number_forms(text, hides_digits=self.vocabulary.hides_digits)
        return any(self.vocabulary.candidates(spelling_key(one)) for one in (text, *others))

    def split_or_compose(self, whole: ResolvedToken) -> list[ResolvedToken]:
        """Return the tokens of a word that is not in the vocabulary and not too long.

        The first possible result is returned: the token of a word that is never split; the coarsest
        split whose pieces are all known; a contraction of a known word; the unsplit word, composed
        from its subwords; the finest split, if a known piece begins with a letter or digit; the
        unsplit word as an unknown token.
        """
        word = whole.text
        if is_unspaced(word):
            return self._segment(whole)
        # Most unknown words have no joint and no unit. The modifier letter apostrophe is a letter.
        if word.isalpha() and (word.isascii() or not ELISION.search(word)):
            return [self._compose(whole)]
        if not word.replace("-", "").replace("'", "").isalpha():
            unsplit = self._unsplit(whole)
            if unsplit:
                return [unsplit]
        split: list[Span] = []
        for split in splits(word, lambda piece: self.resolve(piece).row is not None):
            known: list[ResolvedToken] = []
            for start, end in split:
                piece = self.resolve(word[start:end])
                if piece.row is None:  # the rest of a split with an unknown piece is not looked up
                    break
                known.append(piece)
            else:
                return known
        contraction = CONTRACTION.search(word)
        if contraction:  # German geht's, in a vocabulary without 's
            stem = self.resolve(word[: contraction.start()])
            if stem.row is not None:
                return [stem, self._compose(self.resolve(contraction[0]))]
        composed = self._compose(whole)
        if composed is whole:
            tokens = [self.resolve(word[start:end]) for start, end in split]
            if any(token.row is not None and token.text[0].isalnum() for token in tokens):
                return [self._compose(token) for token in tokens]
        return [composed]

    def _segment(self, whole: ResolvedToken) -> list[ResolvedToken]:
        """Return the tokens of an unknown word with letters of scripts without spaces.

        If nothing has a vector, the word stays whole. It and its pieces are composed, except those
        that may be several words.
        """
        unsplit = self._unsplit(whole)
        if unsplit:
            return [unsplit]
        tokens = []
        for start, end in segments(whole.text, self.vocabulary.row):
            token = self.resolve(whole.text[start:end])
            is_other = token.row is None and not is_unspaced(token.text)
            tokens += self.split_or_compose(token) if is_other else [self._compose_unspaced(token)]
        has_vector = any(token.resolution != "oov" for token in tokens)
        return tokens if has_vector else [self._compose_unspaced(whole)]

    def _compose_unspaced(self, token: ResolvedToken) -> ResolvedToken:
        return token if _SEVERAL_WORDS.search(token.text) else self._compose(token)

    def _unsplit(self, token: ResolvedToken) -> ResolvedToken | None:
        """Return the token of an unknown word that is never split, None for other words.

        A handle or hashtag has the entry of its name, and a number with a unit has the entry of the
        unit. An address stays unknown: addresses share n-grams whatever they refer to.
        """
        match = UNSPLIT.fullmatch(token.text)
        if match is None or match["address"]:
            return match and token
        part = match["name"] or match["unit"]
        if part is None:
            return self._compose(token)
        return self._compose(self.resolve(part))._replace(text=token.text)

    def _compose(self, token: ResolvedToken) -> ResolvedToken:
        """Return the token; if it is unknown and has subwords, set the spelling to compose."""
        if token.row is None:
            for spelling, _ in spellings(token.text, "lower" if self.case == "lower" else "exact"):
                if self.composes(spelling):
                    return token._replace(resolution="subword", composed=spelling)
        return token


def _chunk_tokens(
    chunks: Recent[tuple[ResolvedToken, ...]], chunk: str, lexer: _Lexer
) -> tuple[ResolvedToken, ...]:
    """Return the tokens of a chunk; those of punctuation and of a word are shared by chunks."""
    word = chunk if chunk.isalnum() else chunk.strip(_PUNCTUATION)
    if word.isascii() and (word.isalnum() or _PLAIN_WORD.fullmatch(word)):
        if word == chunk:
            token = lexer.resolve(chunk)
            if token.row is not None or len(chunk) > MAX_WORD_LENGTH:
                return (token,)
            return tuple(lexer.split_or_compose(token))
        before, _, after = chunk.partition(word)
        # A mark that is repeated is one word, such as `...`.
        is_plain = not before or (before in _BEFORE and word.isalnum())
        if is_plain and (len(after) <= 1 or (len(after) == 2 and after[0] != after[1])):
            has_entry = lexer.vocabulary.has_compounds and any(
                lexer.may_be_entry(first + word + after[:count])
                for first in {"", before}
                for count in range(len(after) + 1)
                if first or count
            )
            if not has_entry:
                tokens = chunks[before] + chunks[word] if before else chunks[word]
                for mark in after:
                    tokens += chunks[mark]
                return tokens
    return tuple(lexer.tokens(chunk))


class Tokenizer:
    """A tokenizer with a cache.

    A word contains no white space and does not depend on text beyond adjacent white space. So a
    text is split at white space, and the tokens of each short chunk are cached. Threads may share a
    tokenizer.
    """

    PHRASE_WORDS = 4
    """Maximum words of a phrase."""

    def __init__(self, vocabulary: RowLookup, composes: CanCompose = no_subwords) -> None:
        self._lexers = {case: _Lexer(vocabulary, case, composes) for case in get_args(Case)}
        self._chunks: dict[Case, Recent[tuple[ResolvedToken, ...]]] = {
            case: Recent(
                _chunk_tokens,
                lexer,
                size=lambda tokens: len(tokens) * _TOKEN_BYTES,
                longest=_LONGEST,
            )
            for case, lexer in self._lexers.items()
        }
        self._words: dict[Case, Recent[ResolvedToken]] = {
            case: Recent(
                lambda _words, word, lexer: lexer.word_token(word),
                lexer,
                size=lambda _token: _TOKEN_BYTES,
                longest=_LONGEST,
            )
            for case, lexer in self._lexers.items()
        }

    def tokens(
        self, text: str, case: Case = "auto", max_tokens: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text, at most `max_tokens`.

        At most `max_tokens` + MAX_WORD_LENGTH tokens are made, with the pieces of the last word.
        """
        return Tokenized(self.look_up(text, case, max_tokens), text=text).with_offsets()

    def look_up(
        self, text: Text, case: Case = "auto", max_tokens: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text without offsets, or one for each word of a list.

        Occurrences of a word share a token. `max_tokens` is that of `tokens`.
        """
        if not isinstance(text, str):
            return list(map(self._words[case].__getitem__, text[:max_tokens]))
        chunks = self._chunks[case]
        if max_tokens is None or len(text) <= max_tokens:  # each token has a character
            return list(chain.from_iterable(map(chunks.__getitem__, text.split())))
        # Each chunk has a token, so `max_tokens` chunks suffice. The last one is the unsplit rest
        # of the text, which is not reached. A text without white space is one chunk.
        tokens = (
            chunks[chunk] if len(chunk) <= _LONGEST else self._lexers[case].tokens(chunk)
            for chunk in text.split(None, max_tokens)
        )
        return list(islice(chain.from_iterable(tokens), max_tokens))

    def join_phrases(
        self, tokens: list[ResolvedToken], case: Case = "auto", text: str | None = None
    ) -> list[ResolvedToken]:
        """Join consecutive words whose phrase is in the vocabulary, the longest first.

        A phrase has up to `PHRASE_WORDS` words, joined by `_`, or else by `-` or a space, such as
        `New_York`. `text` is the tokenized text, None for a pretokenized sentence.
        """
        joined: list[ResolvedToken] = []
        start = 0
        while start < len(tokens):
            for length in range(min(self.PHRASE_WORDS, len(tokens) - start), 1, -1):
                phrase = self._phrase(tokens[start : start + length], case, text)
                if phrase:
                    break
            else:
                phrase, length = tokens[start], 1
            joined.append(phrase)
            start += length
        return joined

    def _phrase(
        self, tokens: list[ResolvedToken], case: Case, text: str | None
    ) -> ResolvedToken | None:
        """Return the token of a phrase, None if it is not in the vocabulary."""
        words = [token.text for token in tokens]
        if all(word[:1].isalnum() and word[-1:].isalnum() for word in words):
            start, end = tokens[0].start, tokens[-1].end
            spaced = " ".join(words)
            whole = spaced if text is None else text[start:end]
            if len(visible(whole)[0].split()) != len(words) or len(spaced) > MAX_WORD_LENGTH:
                return None  # such as `v` and `12` of `v12`
            lexer = self._lexers[case]
            # An entry with a space is a compound, of which the vocabulary has the key.
            for joint in "_- " if lexer.vocabulary.candidates(spelling_key(spaced)) else "_-":
                phrase = lexer.resolve(joint.join(words))
                if phrase.row is not None:
                    return phrase._replace(text=whole, start=start, end=end)
        return None
