"""Tokenization: the words of a text, and the vocabulary entry of each.

GloVe's corpus was tokenized as in the Penn Treebank (`did` + `n't`), the corpora of Word2Vec and
fastText were not, and no word pattern fits all of them. So each word is looked up first, and is
split only if it is not in the vocabulary.
"""

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import regex

from polyseme.caches import Recent

Case: TypeAlias = Literal["auto", "exact", "lower"]
Resolution: TypeAlias = Literal["exact", "lower", "capitalised", "upper", "subword", "oov"]
Span: TypeAlias = tuple[int, int]
CanCompose: TypeAlias = Callable[[str], bool]
"""A function that returns whether the subwords compose a vector for a spelling."""
_LONGEST = 16
"""Maximum characters of a chunk or a word that is cached; longer words are rare."""
_TOKEN_BYTES = 512
"""Maximum bytes of a token in a cache, with its three strings."""
MAX_WORD_LENGTH = 256
"""Maximum length in code points of a word that is looked up. A longer one is one unknown token: it
is not normalized, split or composed, all of which may take more than linear time."""


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


@dataclass(frozen=True)
class Tokenized:
    """The tokens of one sentence."""

    words: list[ResolvedToken]
    """the tokens, without offsets if there is a `text`"""
    truncated: int = 0
    """the number of words removed by truncation, which are counted up to a limit"""
    text: str | None = None
    """the text, from which the offsets are computed when somebody reads them"""

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each token, of a sentence with a `text`."""
        find, end = (self.text or "").find, 0
        # A word starts at the end of the one before it, or after white space.
        words = map(itemgetter(0), self.words)
        return [(end := find(word, end) + len(word)) - len(word) for word in words]

    @property
    def tokens(self) -> list[ResolvedToken]:
        """The tokens with their offsets; a new list each time."""
        if self.text is None:
            return self.words
        new = tuple.__new__  # takes half the time of `ResolvedToken(…)`
        return [
            new(ResolvedToken, (word, start, start + len(word), key, resolution, row, composed))
            for start, (word, _, _, key, resolution, row, composed) in zip(
                self.starts, self.words, strict=True
            )
        ]


class RowLookup(Protocol):
    """The part of a vocabulary that tokenization needs."""

    def row(self, word: str) -> int | None:
        """Return the row of a word exactly as spelled, None if it is not in the vocabulary."""


# Every repetition that could be retried from each character is bounded or possessive, so matching
# takes linear time even for hostile text, such as a megabyte of `a+a+a+…`.
_UNSPLIT = r"""
      (?P<address>
          (?: (?: https? | ftp ):// | www\. )                           # a web address
          [^\s\x1c-\x1f<>"]* [^\s\x1c-\x1f<>"'’”.,;:!?…)\]}]
        | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} ){1,8}         # a mail address
      )
    | (?<! [\w&] ) [@\#]                                                # @handle  #hashtag
      (?P<name> (?= [\p{N}_]*+ \p{L} ) [\p{L}\p{N}\p{M}_\u200c\u200d]++ )
    | (?P<unit> \p{Sc} ) \p{Nd}{1,20}+ (?: [.,] \p{Nd}{1,20}+ ){0,8}+   # $5  €1.5bn
      (?: [kmbt] | [bmt]n )? (?! \w )
    | \p{Nd}{1,20}+ (?: [.,] \p{Nd}{1,20}+ ){0,8}+                      # 20%  5kg  3.5GHz
      (?P<unit>
          [%‰] | \p{Sc} | ° | [kcdmµμn]m | ft | yd | mi | [kmµμ]g | lbs? | oz | [cdm]l | gal
        | [mµμn]s | secs? | mins? | hrs? | yrs? | [ap]m | mph | kmh | kph | rpm | fps | bpm
        | [kmgt]?hz | bit | [kmgtp]i?b | [kmg]bps | [kmgt]?wh | [kmgt]w | [km]?j | k?cal | hp
        | [mk]v | m?ah | [kmgt]?ev | [khm]?pa | psi | db | px | dpi | ppi | [bmt]n
        | (?-i: [mglLVWhkKMB] )
      )
      (?: [²³] | / [hs] | (?<= ° ) [CF] )? (?! \w )
    | \p{Nd}{1,2} (?: : \p{Nd}{2} ){1,2} (?P<unit> [ap]m )? (?! [.,:]? \w )  # 10:30
"""
"""Words that are not split, although the vocabulary may lack them."""
_WORD = regex.compile(
    _UNSPLIT
    + r"""
    | (?: \p{L}\p{M}* \. ){2,16}                                        # U.S.  e.g.
    | ['’] (?: s | re | ve | ll | d | m ) (?! [\w'’] )                  # a separate 's
    | [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]*                      # a word,
      (?: (?: ['’‘.·&_‐‑-] | (?<=\p{Nd}) [,:] (?= \p{Nd} ) )            #   joined to another
          [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]* )*
    | \p{RI}{2}                                                         # a flag
    | \p{Extended_Pictographic}
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} )*
    | (?P<run> [^\s\x1c-\x1f\p{DI}] ) (?P=run)* \p{M}*                 # ... -- ! and the rest
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
_UNSPLIT_WORD = regex.compile(_UNSPLIT, regex.VERBOSE | regex.IGNORECASE)
# Penn Treebank contractions: `n't` is split before the n, the others before the apostrophe.
_CONTRACTION = regex.compile(r"(?<=\w)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", regex.IGNORECASE)
_JOINT = regex.compile(r"['’‘.·&_‐‑,:-]|(?<=\p{N})(?=\p{L})|(?<=\p{L})(?=\p{N})")
_PUNCTUATION = '.,;:!?()"'
"""Marks that do not belong to a word of ASCII letters, digits, `-` and `'` that they surround."""
_SHORT_RUN = regex.compile(r"([^\s\p{RI}])\1{1,2}")  # not a flag
_IGNORABLE = regex.compile(r"[[\p{DI}\p{Cc}]--[\s\x1c-\x1f]]", regex.V1)
"""The code points that Unicode calls default-ignorable, and control characters."""
_INVISIBLE = regex.compile(
    r"""
      (?<= [\p{L}\p{M}] ) [\u200c\u200d] (?= \p{L} )                   # a joiner in a word
    | (?<= [\p{Han}\p{Mongolian}\p{Phags_Pa}] ) [\p{DI}&&\p{M}]       # a variant of a letter
    | [0-9\#*] \ufe0f \u20e3 | \p{Extended_Pictographic}              # an emoji
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} )*+
    | (?P<ignored> [[\p{DI}\p{Cc}]--[\s\x1c-\x1f]]++ )
    """,
    regex.VERBOSE | regex.V1,
)
"""What is ignored in a text, and ignorable code points that belong to a letter or an emoji."""
_RAISED = regex.compile(r"[\p{dt=super}\p{dt=sub}\p{dt=fraction}]")  # 10³ is not 103
_STACKED = regex.compile(
    r"(?<=[\p{L}\p{N}])[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
)
"""Marks that have no letter of their own in NFC, such as an underline."""


def without_ignorable(text: str) -> str:
    """Return a text or a word without ignorable code points; a zero-width space becomes a space."""
    if text.isascii() and text.isprintable():
        return text
    return _IGNORABLE.sub("", text.replace("\u200b", " "))


def visible(text: str) -> tuple[str, Sequence[int] | None]:
    """Return a text without invisible code points, and the offset of each one that remains.

    The offsets are None if they do not change. A zero-width space becomes a space.
    """
    if (text.isascii() and text.isprintable()) or not _IGNORABLE.search(text):
        return text, None
    text = text.replace("\u200b", " ")
    parts, places, end = [], array("I"), 0
    for match in _INVISIBLE.finditer(text):
        if match["ignored"]:
            parts.append(text[end : match.start()])
            places.extend(range(end, match.start()))
            end = match.end()
    parts.append(text[end:])
    places.extend(range(end, len(text)))
    return ("".join(parts), places) if end else (text, None)


def words(text: str) -> Iterator[Span]:
    """Yield (start, end) of each word, in code points.

    Only white space and invisible code points are between words. Contractions, hyphenated words,
    numbers and abbreviations are one word each; `tokenize` may split those that are not in the
    vocabulary. Emoji with their modifiers, web and mail addresses, handles, hashtags, times, and
    numbers with a unit are one word each and are never split.
    """
    text, places = visible(text)
    for match in _WORD.finditer(text):
        start, end = match.span()
        yield (start, end) if places is None else (places[start], places[end - 1] + 1)


def splits(word: str) -> Iterator[list[Span]]:
    """Yield the possible splits of a word, the coarsest first; each is a list of (start, end).

    The spans of one split are adjacent and cover the word.
    """
    if not word[:1].isalnum() and _SHORT_RUN.fullmatch(word):
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
    """Yield (spelling, resolution) in the order of lookup, none for a word that is too long.

    `auto` tries the word as written, in lower case, capitalized, and in upper case. The NFC form of
    the word, with a straight apostrophe, is tried next and has the same resolutions. So have, last,
    that form without ignorable code points, and its compatibility form.
    """
    if len(word) > MAX_WORD_LENGTH:
        return
    normal = unicodedata.normalize("NFC", word).replace("’", "'")
    forms = [word, normal]
    if not (word.isascii() and word.isprintable()):
        shown = without_ignorable(normal)
        forms += [shown, _compatible(shown)]
    for form in dict.fromkeys(forms):
        lower = form.lower()
        if case == "lower":
            yield lower, "exact" if lower == form else "lower"
            continue
        yield form, "exact"
        if case == "auto":
            # A spelling of this form is not repeated, because lookups take most of the time.
            if lower != form:
                yield lower, "lower"
            if (capitalized := form.capitalize()) not in (form, lower):
                yield capitalized, "capitalised"
            if (upper := form.upper()) not in (form, lower, capitalized):
                yield upper, "upper"


def _compatible(word: str) -> str:
    """Return the form of a word in NFKC, without marks that have no letter of their own.

    `İ` becomes `I`. A word with superscripts, subscripts or fractions is returned unchanged, and so
    is one that would have a space or be too long.
    """
    form = word if _RAISED.search(word) else unicodedata.normalize("NFKC", word)
    form = _STACKED.sub("", form.replace("İ", "I"))
    return word if " " in form or len(form) > MAX_WORD_LENGTH else form


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
    for spelling, resolution in spellings(word, case):
        row = vocabulary.row(spelling)
        if row is not None:
            return ResolvedToken(word, None, None, spelling, resolution, row)
    return ResolvedToken(word, None, None, None, "oov", None)


def resolve_all(
    texts: Iterable[str],
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> list[ResolvedToken]:
    """Return one token for each word of a pretokenized sentence, without splitting."""
    return [
        token
        if token.row is not None or len(token.text) > MAX_WORD_LENGTH
        else _resolve_unsplit(token, vocabulary, case, composes) or _compose(token, case, composes)
        for token in (resolve(text, vocabulary, case) for text in texts)
    ]


def tokenize(
    text: str,
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> list[ResolvedToken]:
    """Return the tokens of a text; split or compose the words that are not in the vocabulary."""
    return Tokenized(list(iter_tokens(text, vocabulary, case, composes)), text=text).tokens


def iter_tokens(
    text: str,
    vocabulary: RowLookup,
    case: Case = "auto",
    composes: CanCompose = no_subwords,
) -> Iterator[ResolvedToken]:
    """Yield the tokens that `tokenize` returns, without offsets.

    All pieces of one word are made at once; these are at most MAX_WORD_LENGTH tokens.
    """
    shown, places = visible(text)
    for match in _WORD.finditer(shown):
        token, end = resolve(match[0], vocabulary, case), match.start()
        tokens = [token]
        if token.row is None and len(token.text) <= MAX_WORD_LENGTH:
            tokens = _split_or_compose(token, vocabulary, case, composes)
        if places is None:
            yield from tokens
            continue
        for token in tokens:
            start, end = end, end + len(token.text)
            yield token._replace(text=text[places[start] : places[end - 1] + 1])


def _split_or_compose(
    whole: ResolvedToken, vocabulary: RowLookup, case: Case, composes: CanCompose
) -> list[ResolvedToken]:
    """Return the tokens of a word that is not in the vocabulary and not too long.

    The first possible result is returned: the token of a word that is never split; the coarsest
    split whose pieces are all known; the unsplit word, composed from its subwords; the finest
    split, if a known piece begins with a letter or digit; the unsplit word as an unknown token.
    """
    word, split = whole.text, list[Span]()
    if word.isalpha():  # most unknown words: without a joint and a unit
        return [_compose(whole, case, composes)]
    if not word.replace("-", "").replace("'", "").isalpha():
        unsplit = _resolve_unsplit(whole, vocabulary, case, composes)
        if unsplit:
            return [unsplit]
    for split in splits(word):
        known: list[ResolvedToken] = []
        for start, end in split:
            piece = resolve(word[start:end], vocabulary, case)
            if piece.row is None:  # the rest of a split with an unknown piece is not looked up
                break
            known.append(piece)
        else:
            return known
    composed = _compose(whole, case, composes)
    if composed is whole:
        tokens = [resolve(word[start:end], vocabulary, case) for start, end in split]
        if any(token.row is not None and token.text[0].isalnum() for token in tokens):
            return [_compose(token, case, composes) for token in tokens]
    return [composed]


def _resolve_unsplit(
    token: ResolvedToken, vocabulary: RowLookup, case: Case, composes: CanCompose
) -> ResolvedToken | None:
    """Return the token of an unknown word that is never split, None for other words.

    A handle or hashtag has the entry of its name, and a number with a unit has the entry of the
    unit. An address stays unknown: addresses share n-grams whatever they refer to.
    """
    match = _UNSPLIT_WORD.fullmatch(token.text)
    if match is None or match["address"]:
        return match and token
    part = match["name"] or match["unit"]
    if part is None:
        return _compose(token, case, composes)
    return _compose(resolve(part, vocabulary, case), case, composes)._replace(text=token.text)


def _compose(token: ResolvedToken, case: Case, composes: CanCompose) -> ResolvedToken:
    """Return the token; if it is unknown and has subwords, set the spelling to compose."""
    if token.row is None:
        for spelling, _ in spellings(token.text, "lower" if case == "lower" else "exact"):
            if composes(spelling):
                return token._replace(resolution="subword", composed=spelling)
    return token


def _chunk_tokens(
    chunks: Recent[tuple[ResolvedToken, ...]],
    chunk: str,
    vocabulary: RowLookup,
    case: Case,
    composes: CanCompose,
) -> tuple[ResolvedToken, ...]:
    """Return the tokens of a chunk; those of punctuation and of a word are shared by chunks."""
    word = chunk.strip(_PUNCTUATION)
    if word != chunk and word.isascii() and word.replace("-", "").replace("'", "").isalnum():
        before, _, after = chunk.partition(word)
        # A mark that is repeated is one word, such as `...`.
        if len(before) <= 1 and (len(after) <= 1 or (len(after) == 2 and after[0] != after[1])):
            tokens = chunks[before] + chunks[word] if before else chunks[word]
            for mark in after:
                tokens += chunks[mark]
            return tokens
    if word == chunk and word.isascii() and word.isalpha():
        token = resolve(word, vocabulary, case)
        if token.row is not None:
            return (token,)
    return tuple(iter_tokens(chunk, vocabulary, case, composes))


def _word_token(
    _words: Recent[ResolvedToken],
    word: str,
    vocabulary: RowLookup,
    case: Case,
    composes: CanCompose,
) -> ResolvedToken:
    """Return the token of a word of a pretokenized sentence."""
    return resolve_all((word,), vocabulary, case, composes)[0]


def _size(tokens: tuple[ResolvedToken, ...]) -> int:
    return len(tokens) * _TOKEN_BYTES


def _token_size(_: ResolvedToken) -> int:
    return _TOKEN_BYTES


class Tokenizer:
    """A tokenizer with a cache, which returns the same tokens as `tokenize` and `resolve_all`.

    A word contains no white space and does not depend on text beyond adjacent white space. So a
    text is split at white space, and the tokens of each short chunk are cached. Threads may share a
    tokenizer.
    """

    PHRASE_WORDS = 4
    """Maximum words of a phrase."""

    def __init__(self, vocabulary: RowLookup, composes: CanCompose = no_subwords) -> None:
        self._vocabulary, self._composes = vocabulary, composes
        cases = get_args(Case)
        self._chunks = {
            c: Recent(_chunk_tokens, vocabulary, c, composes, size=_size, longest=_LONGEST)
            for c in cases
        }
        self._words = {
            c: Recent(_word_token, vocabulary, c, composes, size=_token_size, longest=_LONGEST)
            for c in cases
        }

    def tokens(
        self, text: str, case: Case = "auto", most: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text; with `most`, stop once there are at least that many.

        At most `most` + MAX_WORD_LENGTH tokens are made, the pieces of the last word included.
        """
        return Tokenized(self.look_up(text, case, most), text=text).tokens

    def look_up(
        self, text: str | Sequence[str], case: Case = "auto", most: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text without offsets, or one for each word of a list.

        Occurrences of a word share a token. `most` is that of `tokens`.
        """
        if not isinstance(text, str):
            return list(map(self._words[case].__getitem__, text[:most]))
        chunks = self._chunks[case]
        if most is None or len(text) <= most:  # each token has a character
            return list(chain.from_iterable(map(chunks.__getitem__, text.split())))
        found: list[ResolvedToken] = []
        # Each chunk has at least one token, so `most` chunks suffice. The last of the `most` + 2
        # chunks is the unsplit rest of the text, which is not reached.
        for chunk in text.split(None, most + 1):
            if len(chunk) <= _LONGEST:
                found += chunks[chunk]
            else:  # a text without white space is one chunk
                tokens = iter_tokens(chunk, self._vocabulary, case, self._composes)
                found += islice(tokens, most - len(found))
            if len(found) >= most:
                break
        return found

    def join(
        self, tokens: list[ResolvedToken], case: Case = "auto", text: str | None = None
    ) -> list[ResolvedToken]:
        """Join consecutive words whose phrase is in the vocabulary, the longest first.

        A phrase has up to `PHRASE_WORDS` words, joined by `_` or else by `-`, such as `New_York`.
        `text` is the tokenized text, None for a pretokenized sentence.
        """
        joined: list[ResolvedToken] = []
        place = 0
        while place < len(tokens):
            for length in range(min(self.PHRASE_WORDS, len(tokens) - place), 1, -1):
                phrase = self._phrase(tokens[place : place + length], case, text)
                if phrase:
                    break
            else:
                phrase, length = tokens[place], 1
            joined.append(phrase)
            place += length
        return joined

    def _phrase(
        self, tokens: list[ResolvedToken], case: Case, text: str | None
    ) -> ResolvedToken | None:
        """Return the token of a phrase, None if it is not in the vocabulary."""
        words = [token.text for token in tokens]
        if all(word[:1].isalnum() and word[-1:].isalnum() for word in words):
            start, end = tokens[0].start, tokens[-1].end
            whole = " ".join(words) if text is None else text[start:end]
            if len(visible(whole)[0].split()) != len(words):
                return None  # such as `v` and `12` of `v12`
            for joint in "_-":
                found = resolve(joint.join(words), self._vocabulary, case)
                if found.row is not None:
                    return found._replace(text=whole, start=start, end=end)
        return None
