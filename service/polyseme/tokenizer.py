"""Tokenization: the words of a text, each with the vocabulary entry that stands for it.

GloVe was tokenized as in the Penn Treebank (`did` + `n't`), Word2Vec and fastText were not, and no
word pattern suits all of them. A word is looked up whole first and split only where that fails.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import regex

Case: TypeAlias = Literal["auto", "exact", "lower"]
Resolution: TypeAlias = Literal["exact", "lower", "capitalised", "upper", "subword", "oov"]
Span: TypeAlias = tuple[int, int]
CanCompose: TypeAlias = Callable[[str], bool]
"""Whether a spelling that the vocabulary lacks has a vector, composed from its subwords."""


class ResolvedToken(NamedTuple):
    """A word of a text; `start` and `end` are code points, None for words that come tokenized."""

    text: str
    start: int | None
    end: int | None
    key: str | None
    """the vocabulary entry"""
    resolution: Resolution
    row: int | None
    composed: str | None = None
    """the spelling whose subwords make the vector of a word without a vocabulary entry"""


class RowLookup(Protocol):
    """The part of a vocabulary that tokenization needs."""

    def row(self, word: str) -> int | None:
        """Return the row of a word as it is spelled, None where the vocabulary lacks it."""


# Every repetition that could be retried from each character is bounded. Hostile text, such as a
# megabyte of `a+a+a+…`, costs time in proportion to its length.
_WORD = regex.compile(
    r"""
      (?: https?:// | www\. ) [^\s\x1c-\x1f<>"]* [^\s\x1c-\x1f<>"'’”.,;:!?…)\]}]  # a web address
    | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} ){1,8}             # a mail address
    | (?: \p{L}\p{M}* \. ){2,16}                                        # U.S.  e.g.
    | ['’] (?: s | re | ve | ll | d | m ) (?! [\w'’] )                  # 's standing alone
    | [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]*                      # a word,
      (?: (?: ['’‘.·&_‐‑-] | (?<=\p{Nd}) [,:] (?= \p{Nd} ) )            #   joined to another
          [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]* )*
    | \p{RI}{2}                                                         # a flag
    | \p{Extended_Pictographic}
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} )*
    | (?P<run>[^\s\x1c-\x1f]) (?P=run)* \p{M}*                         # ... -- ! and the rest
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
# Penn Treebank contractions: `n't` is split before the n, the others before the apostrophe.
_CONTRACTION = regex.compile(r"(?<=\w)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", regex.IGNORECASE)
_JOINT = regex.compile(r"['’‘.·&_‐‑,:-]|(?<=\p{N})(?=\p{L})|(?<=\p{L})(?=\p{N})")
_SHORT_RUN = regex.compile(r"(\S)\1{1,2}")


def words(text: str) -> Iterator[Span]:
    """Yield (start, end) of each Unicode word, in code points; only white space lies between them.

    Contractions, hyphenated words, numbers, abbreviations, web addresses and emoji with their
    modifiers are one word each; the vocabulary decides later whether to split them.
    """
    for match in _WORD.finditer(text):
        yield match.span()


def splits(word: str) -> Iterator[list[Span]]:
    """Yield ways to split a word, the coarsest first; each is a list of (start, end).

    The spans of one split are adjacent and cover the word.
    """
    if _SHORT_RUN.fullmatch(word) and not word[0].isalnum():
        yield [(i, i + 1) for i in range(len(word))]
        return
    contraction = _CONTRACTION.search(word)
    stem = contraction.start() if contraction else len(word)
    tail = [(stem, len(word))] if contraction else []
    if contraction:
        yield [(0, stem), *tail]
    edges = {0, stem} | {edge for joint in _JOINT.finditer(word, 0, stem) for edge in joint.span()}
    fine = list(pairwise(sorted(edges)))
    if len(fine) > 1:
        yield [*fine, *tail]


def spellings(word: str, case: Case) -> Iterator[tuple[str, Resolution]]:
    """Yield (spelling, resolution) in the order of lookup; the same spelling may come twice.

    `auto` is the word as written, then in lower case, capitalized, and in upper case. Another
    Unicode normal form and a typographic apostrophe count as written the same.
    """
    for form in dict.fromkeys((word, unicodedata.normalize("NFC", word).replace("’", "'"))):
        lower = form.lower()
        if case == "lower":
            yield lower, "exact" if lower == form else "lower"
            continue
        yield form, "exact"
        if case == "auto":
            yield lower, "lower"
            yield form.capitalize(), "capitalised"
            yield form.upper(), "upper"


def no_subwords(_spelling: str) -> bool:
    """Compose no word: a `CanCompose` for models without subwords."""
    return False


def resolve(
    word: str, vocabulary: RowLookup, case: Case = "auto", start: int | None = None
) -> ResolvedToken:
    """Return the token of one word, without splitting or composing it."""
    end = None if start is None else start + len(word)
    # Most words are found as they are written and need no other spelling.
    if case != "lower" and (row := vocabulary.row(word)) is not None:
        return ResolvedToken(word, start, end, word, "exact", row)
    for spelling, resolution in spellings(word, case):
        row = vocabulary.row(spelling)
        if row is not None:
            return ResolvedToken(word, start, end, spelling, resolution, row)
    return ResolvedToken(word, start, end, None, "oov", None)


def resolve_all(
    texts: Iterable[str],
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> list[ResolvedToken]:
    """Return one token for each word of a sentence that comes tokenized; none is split."""
    return [_compose(resolve(text, vocabulary, case), case, composes) for text in texts]


def tokenize(
    text: str,
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> list[ResolvedToken]:
    """Return the tokens of a text; split or compose the words that the vocabulary lacks."""
    return list(iter_tokens(text, vocabulary, case, composes))


def iter_tokens(
    text: str,
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> Iterator[ResolvedToken]:
    """Yield what `tokenize` returns, one token at a time."""
    for start, end in words(text):
        token = resolve(text[start:end], vocabulary, case, start)
        if token.row is None:
            yield from _split_or_compose(token, vocabulary, case, composes)
        else:
            yield token


def _split_or_compose(
    whole: ResolvedToken, vocabulary: RowLookup, case: Case, composes: CanCompose
) -> list[ResolvedToken]:
    """Return the tokens of a word that the vocabulary lacks.

    The first split whose pieces are all known, else the whole word composed, else the finest split
    with a known word, else the word as it is.
    """
    tokens, offset = [whole], whole.start or 0
    for split in splits(whole.text):
        tokens = [
            resolve(whole.text[start:end], vocabulary, case, offset + start) for start, end in split
        ]
        if all(token.row is not None for token in tokens):
            return tokens
    composed = _compose(whole, case, composes)
    if composed is whole and any(t.row is not None and t.text[0].isalnum() for t in tokens):
        return [_compose(token, case, composes) for token in tokens]
    return [composed]


def _compose(token: ResolvedToken, case: Case, composes: CanCompose) -> ResolvedToken:
    """Return the token, with the spelling to compose where it is unknown and has subwords."""
    if token.row is None:
        for spelling, _ in spellings(token.text, "lower" if case == "lower" else "exact"):
            if composes(spelling):
                return token._replace(resolution="subword", composed=spelling)
    return token


class Tokenizer:
    """Returns the tokens of `tokenize` and `resolve_all`, and caches those of short words.

    No word contains white space, and none depends on what lies beyond it. A text is therefore
    split at white space and each chunk tokenized once. Threads may share a tokenizer.
    """

    CACHE_SIZE = 8192
    """Chunks for each case: about 3 MB, 25 MB where each character is a token."""
    LONGEST_CACHED = 16
    """Characters of the longest chunk in the cache; longer ones are rare."""

    def __init__(self, vocabulary: RowLookup, composes: CanCompose = no_subwords) -> None:
        self._vocabulary, self._composes = vocabulary, composes
        self._chunks: dict[Case, dict[str, list[ResolvedToken]]] = {
            case: {} for case in get_args(Case)
        }
        self._words: dict[Case, dict[str, ResolvedToken]] = {case: {} for case in get_args(Case)}

    def tokens(
        self, text: str, case: Case = "auto", most: int | None = None
    ) -> list[ResolvedToken]:
        """The tokens of a text; with `most`, at least that many of the first, if there are."""
        found: list[ResolvedToken] = []
        append, new, find = found.append, tuple.__new__, text.find
        cache = self._chunks[case]
        end = 0
        # Each chunk has a token, and only the last of `most` + 2 may contain white space.
        for chunk in text.split(None, -1 if most is None else most + 1):
            start = find(chunk, end)
            end = start + len(chunk)
            tokens: Iterable[ResolvedToken] | None = cache.get(chunk)
            if tokens is None:
                left = None if most is None else most - len(found)
                tokens = self._tokenize_chunk(chunk, case, left)
            # `tuple.__new__` is twice as fast as `ResolvedToken(…)`, which dominates cached texts.
            for word, first, last, key, resolution, row, composed in tokens:
                append(
                    new(
                        ResolvedToken,
                        (word, start + first, start + last, key, resolution, row, composed),  # type: ignore[operator]
                    )
                )
            if most is not None and len(found) >= most:
                break
        return found

    def words(self, words: Iterable[str], case: Case = "auto") -> list[ResolvedToken]:
        """One token for each word of a sentence that comes tokenized."""
        found = []
        cache = self._words[case]
        for word in words:
            token = cache.get(word)
            if token is None:
                (token,) = resolve_all((word,), self._vocabulary, case, self._composes)
                if len(word) <= self.LONGEST_CACHED:
                    if len(cache) >= self.CACHE_SIZE:
                        cache.clear()
                    cache[word] = token
            found.append(token)
        return found

    def _tokenize_chunk(self, chunk: str, case: Case, most: int | None) -> Iterable[ResolvedToken]:
        """Return the tokens of a chunk, and cache them if it is short; else at most `most`."""
        if len(chunk) > self.LONGEST_CACHED:  # a text without white space is one chunk
            return islice(iter_tokens(chunk, self._vocabulary, case, self._composes), most)
        tokens = None
        # Letters of ASCII, as in most chunks, are one word; they need no pattern.
        if chunk.isascii() and chunk.isalpha():
            token = resolve(chunk, self._vocabulary, case, 0)
            tokens = None if token.row is None else [token]
        if tokens is None:
            tokens = tokenize(chunk, self._vocabulary, case, self._composes)
        cache = self._chunks[case]
        if len(cache) >= self.CACHE_SIZE:
            cache.clear()
        cache[chunk] = tokens
        return tokens
