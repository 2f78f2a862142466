"""Encoding of sentences: tokens, static vectors, contextual vectors and attention."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from operator import attrgetter
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from polyseme.engine import Floats, NonFiniteError, require_finite, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Contextualized, contextualize
from polyseme.errors import MAX_ERRORS, FieldError, FieldPath, OutOfRangeError, UnknownWordError
from polyseme.models.model import Model
from polyseme.operations.limits import Limits, current_budget, current_record, stage
from polyseme.operations.schema import (
    PER_LAYER,
    PER_PAIR,
    Dtype,
    EncodeOptions,
    Input,
    ModelName,
    Part,
)
from polyseme.spellings import Case, Resolution
from polyseme.tokenizer import ResolvedToken, Text, Tokenized, Tokenizer, is_unsegmented
from polyseme.words import word_spans

PathOfText: TypeAlias = Callable[[int], FieldPath]
"""Returns the path of a text in a request by its index among the texts."""
MAX_COUNTED = 100_000
"""Maximum number of words that are counted after the last token of a text or a request."""
STACK_TOKENS = 320
"""Maximum tokens of the sentences that are computed together; more no longer fit the processor's
cache (docs/decisions/0028)."""
_STATIC_NUMBERS = 1 << 17
"""Numbers of the static vectors that are looked up together."""
WINDOW, WINDOW_NUMBERS = 256, 1 << 22
"""Maximum sentences of a window, and the numbers in its arrays that end it."""
MAX_UNKNOWN_WORDS = 1000
"""Maximum number of words in an UnknownWordError."""
_TOKEN_BYTES, _CHARACTER_BYTES = 128, 8
"""Maximum bytes of a token in JSON without its text and key, and of a character of both."""
_NUMBER_MEMORY = 8
"""Bytes that a number takes while its array is computed: float32, and a copy of one part."""
_TOO_LARGE_RESPONSE = (
    "Send fewer sentences, accept application/x-ndjson, which is streamed, or use `polyseme bulk`."
)
UNSEGMENTED = (
    "The vocabulary lacks most of a text in a script without spaces, so the text cannot be"
    " segmented: send lists of words, or use a model of its language."
)
_resolution = attrgetter("resolution")


@dataclass(frozen=True)
class Token:
    """A token and its vocabulary entry."""

    text: str
    start: int | None
    """offset in code points; null for tokenized input"""
    end: int | None
    key: str | None
    """the vocabulary entry; null if there is none"""
    resolution: Resolution

    @classmethod
    def of(cls, token: ResolvedToken) -> Self:
        """Return a token without its vocabulary row."""
        return cls(token.text, token.start, token.end, token.key, token.resolution)


class EncodeRequest(EncodeOptions):
    """Sentences, the model that encodes them, and what to return for them."""

    input: Input
    """a sentence, a list of sentences, or a list of lists of words"""
    model: ModelName = None


class TokenCounts:
    """Counts of all tokens of sentences, of tokens by resolution, and of truncated words."""

    def __init__(self, sentences: Iterable[Tokenized]) -> None:
        self.truncated = 0
        resolutions: list[Resolution] = []
        self.notes: list[str] = []
        for sentence in sentences:
            self.truncated += sentence.truncated
            of_words = list(map(_resolution, sentence.tokens))
            resolutions += of_words
            # The words of a list have no offsets and no text.
            if "oov" in of_words and sentence.text and is_unsegmented(sentence.tokens):
                self.notes = [UNSEGMENTED]
        self.tokens, self.oov = len(resolutions), resolutions.count("oov")
        self.usage = {"tokens": self.tokens, "oov": self.oov, "truncated": self.truncated}
        self.document = {"usage": self.usage, **({"notes": self.notes} if self.notes else {})}
        """the members `usage` and `notes` of responses, without `notes` if there are none"""
        self.subword = resolutions.count("subword")
        self.case_fallbacks = self.tokens - resolutions.count("exact") - self.oov - self.subword


def record_token_counts(sentences: Iterable[Tokenized]) -> TokenCounts:
    """Return the counts of sentences, and record them for the log and metrics of a request."""
    counts = TokenCounts(sentences)
    if record := current_record():
        record.counts = counts
    return counts


class Encoded(NamedTuple):
    """The result for one sentence; only the requested arrays are present."""

    sentence: Tokenized
    arrays: dict[Part, Floats]
    """`static`, `contextual` [n, d]; `features` [n, 2d]; for L requested layers, `attention` and
    `scores` [L, h, n, n], or [L, n, n] as the mean of the heads, `contributions` [L, n, m],
    `queries` and `keys` [L, h, n, k], and `values` [L, h, n, v]"""

    @property
    def tokens(self) -> list[ResolvedToken]:
        """The tokens with their offsets; a new list each time."""
        return self.sentence.with_offsets()

    @property
    def truncated(self) -> int:
        """The number of words removed by truncation."""
        return self.sentence.truncated


def word_indices(words: Sequence[str], tokens: Sequence[ResolvedToken]) -> Sequence[int]:
    """Return the index of the first word of each token of a list; a phrase has several words."""
    if len(tokens) == len(words):
        return range(len(words))
    indices, end = [], 0
    for token in tokens:
        indices.append(end)
        length = -1
        while length < len(token.text):
            length += 1 + len(words[end])
            end += 1
    return indices


def tokenize(
    model: Model,
    texts: str | Sequence[Text],
    options: EncodeOptions,
    limits: Limits,
    path: PathOfText = lambda index: ("input", index),
    *,
    number_bytes: float = 0.0,
    streamed: bool = False,
    require_words: bool = False,
) -> list[Tokenized]:
    """Tokenize the sentences of a request, check its options and limits, and reserve memory.

    At most one token more than a limit is used, whatever the length of the texts. `path`
    returns the path of a sentence in the request by its index, that of a single text is `input`.
    `number_bytes` is the maximum size of a number in the response, 0 if none is written; a streamed
    response has a window of sentences in memory at a time.
    Raises InvalidError if the model does not support an option, TooLargeError if a sentence or the
    request exceeds a limit, UnknownWordError if a word is not in the vocabulary and `oov` is
    `error`, or if no word of a sentence has a vector and `require_words` is true, and the errors of
    the request's budget.
    """
    if isinstance(texts, str):
        texts, path = [texts], lambda _: ("input",)
    options.check(model)
    oov = options.oov or ("zero" if model.subwords is None else "subword")
    sizes = options.size_coefficients(model)
    limits.check("max_sentences", len(texts))
    if sum(map(len, texts)) > limits.max_tokens:
        limits.check("max_tokens", _count_chunks(texts, limits.max_sentence_tokens))
    tokenizer = model.tokenizer if oov == "subword" else model.plain_tokenizer
    sentences: list[Tokenized] = []
    total, max_counted = 0, MAX_COUNTED
    for index, text in enumerate(texts):
        current_budget().check()
        max_tokens = min(limits.max_sentence_tokens, limits.max_tokens - total)
        sentence = tokenize_text(text, tokenizer, options.case, max_tokens, max_counted)
        if sentence.truncated:
            max_counted = max(max_counted - sentence.truncated, 1)
            length = len(sentence.tokens) + sentence.truncated
            if not options.truncate:
                errors = [FieldError(path(index), f"has {length} tokens")]
                limits.check("max_sentence_tokens", length, errors=errors)
            if max_tokens < limits.max_sentence_tokens:  # the request exceeds its limit
                length = min(length, limits.max_sentence_tokens)
                rest = _count_words(texts[index + 1 :], MAX_COUNTED)
                limits.check("max_tokens", total + length + rest)
        total += len(sentence.tokens)
        if options.phrases:
            joined = tokenizer.join_phrases(sentence.with_offsets(), options.case, sentence.text)
            sentence = sentence._replace(tokens=joined)
        sentences.append(sentence)
    if not set(options.include) <= {"static"}:
        heads = model.manifest.heads * len(model.layers)
        pairs = sum(len(one.tokens) ** 2 for one in sentences) * heads
        limits.check("max_pairs", pairs)
    if number_bytes:
        _reserve(sentences, sizes, limits, number_bytes, streamed=streamed)
    if oov == "error":
        _require_known_words(sentences, path)
    if require_words:
        _require_any_known_word(sentences, path)
    return sentences


def _reserve(
    sentences: Sequence[Tokenized],
    sizes: tuple[int, int],
    limits: Limits,
    number_bytes: float,
    *,
    streamed: bool,
) -> None:
    """Reserve the memory of a response; `sizes` are those of `EncodeOptions.size_coefficients`.

    Raises TooLargeError if it exceeds the limit, and the errors of `Budget.reserve`.
    """
    per_token, per_pair = sizes
    counts, bytes_of = [], []
    for sentence in sentences:
        n = len(sentence.tokens)
        # Each text and each key has at most as many characters as the text of the sentence.
        whole = None if sentence.truncated else sentence.text
        characters = len(whole) if whole else sum(len(word.text) for word in sentence.tokens)
        counts.append(n * (per_token + n * per_pair))
        size = n * _TOKEN_BYTES + characters * _CHARACTER_BYTES + counts[-1] * number_bytes
        bytes_of.append(size)
    if not counts:
        return
    size = max(bytes_of) if streamed else sum(bytes_of)
    limits.check("max_answer_bytes", size, None if streamed else _TOO_LARGE_RESPONSE)
    count = sum(counts)
    if streamed:
        count = min(count, WINDOW_NUMBERS + max(counts))
    current_budget().reserve(max(int(size), count * _NUMBER_MEMORY))


def tokenize_text(
    text: Text, tokenizer: Tokenizer, case: Case, max_tokens: int, max_counted: int
) -> Tokenized:
    """Return the first `max_tokens` tokens of a text and the number of words after them.

    At most `max_counted` words of a string are counted, in about 1 µs each, for cheap refusals.
    """
    if not isinstance(text, str):
        words = tokenizer.look_up(text, case, max_tokens)
        return Tokenized(words, len(text) - len(words))
    words = tokenizer.look_up(text, case, max_tokens + 1)
    if len(words) <= max_tokens:
        return Tokenized(words, 0, text)
    rest = Tokenized(words, text=text).starts[max_tokens]
    return Tokenized(words[:max_tokens], _count_words([text[rest:]], max_counted), text)


def encode_sentences(
    model: Model, sentences: Sequence[Tokenized], options: EncodeOptions
) -> list[Encoded]:
    """Return the requested arrays of sentences.

    Sentences of equal length are computed together. The arrays of a sentence are bit-identical
    alone and in a list, and for any choice of arrays. Raises NonFiniteError if a result overflows,
    OutOfRangeError if it exceeds the range of `dtype`.
    """
    encoded = [Encoded(sentence, {}) for sentence in sentences]
    for indices, arrays in encode_stacks(model, sentences, options) if options.include else ():
        for part, array in arrays.items():
            for index, of_sentence in zip(indices, array, strict=True):
                encoded[index].arrays[part] = of_sentence
    return encoded


def encode_stacks(
    model: Model, sentences: Sequence[Tokenized], options: EncodeOptions
) -> Iterator[tuple[Sequence[int], dict[Part, Floats]]]:
    """Yield the indices of the B sentences of each stack, and their requested arrays, [B, …].

    Raises the errors of `encode_sentences`.
    """
    include = options.include
    for indices, inputs in static_stacks(model, [sentence.tokens for sentence in sentences]):
        current_budget().check()
        arrays: dict[Part, Floats] = {}
        if "static" in include:
            arrays["static"] = inputs.vectors
        per_layer = [part for part in PER_LAYER if part in include]
        if per_layer or "contextual" in include or "features" in include:
            with stage("attention"):
                layers = options.layer_numbers(model)
                names = ["weights" if part == "attention" else part for part in per_layer]
                result = contextualize(inputs, model.layers, names, layers, share=options.share)
                if "contextual" in include:
                    arrays["contextual"] = result.contextual
                if "features" in include:
                    arrays["features"] = _features(model, inputs, result)
                for part, name in zip(per_layer, names, strict=True):
                    # Without their records, to have each array in memory once.
                    recorded = [result.records[layer].pop(name) for layer in layers]  # type: ignore[call-overload]
                    array = recorded[0][:, None] if len(layers) == 1 else np.stack(recorded, axis=1)
                    if options.heads == "mean" and part in PER_PAIR:
                        # Sentence by sentence, because the order of a sum depends on the strides.
                        array = np.stack([weights.mean(axis=1) for weights in array])
                    arrays[part] = array
        if options.dtype != "float32":
            arrays = {part: cast(array, options.dtype) for part, array in arrays.items()}
        yield indices, arrays


def static_stacks(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]]
) -> Iterator[tuple[Sequence[int], SentenceArrays]]:
    """Yield the indices of the B sentences of each stack, and their input arrays. [B, n]

    The static vectors of several stacks are looked up together: most of the time is that of calls.
    """
    groups = stack_indices([len(tokens) for tokens in sentences])
    ends = accumulate(len(indices) * len(sentences[indices[0]]) for indices in groups)
    size = max(_STATIC_NUMBERS // model.manifest.dimension, 1)
    for _, batch in groupby(zip(ends, groups, strict=True), lambda each: each[0] // size):
        some = [indices for _, indices in batch]
        with stage("static"):
            inputs = model.inputs([t for indices in some for i in indices for t in sentences[i]])
        start = 0
        for indices in some:
            n = len(sentences[indices[0]])
            yield indices, inputs.stack(start, len(indices), n)
            start += len(indices) * n


def encode_each(
    model: Model, sentences: Iterable[Tokenized], options: EncodeOptions
) -> Iterator[Encoded]:
    """Yield the requested arrays of each sentence, which are computed a window at a time.

    If a sentence has an error, those before it are yielded first.
    """
    for window in windows(model, sentences, options):
        try:
            encoded = encode_sentences(model, window, options)
        except (NonFiniteError, OutOfRangeError):
            yield from (encode_sentences(model, [sentence], options)[0] for sentence in window)
        else:
            yield from encoded


def windows(
    model: Model, sentences: Iterable[Tokenized], options: EncodeOptions
) -> Iterator[list[Tokenized]]:
    """Yield consecutive sentences whose arrays fit into memory together."""
    per_token, per_pair = options.size_coefficients(model)
    window: list[Tokenized] = []
    count = 0
    for sentence in sentences:
        window.append(sentence)
        n = len(sentence.tokens)
        count += n * (per_token + n * per_pair)
        if len(window) == WINDOW or count >= WINDOW_NUMBERS:
            yield window
            window, count = [], 0
    if window:
        yield window


def stack_indices(lengths: Sequence[int]) -> list[Sequence[int]]:
    """Return the indices of the sentences of each stack.

    Those of a stack have the same length, and up to STACK_TOKENS tokens unless it is one sentence.
    """
    by_length: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        by_length.setdefault(length, []).append(index)
    result: list[Sequence[int]] = []
    for length, indices in by_length.items():
        max_sentences = max(STACK_TOKENS // max(length, 1), 1)
        count = -(-len(indices) // max_sentences)
        for part in range(count):  # of almost equal size
            first, last = len(indices) * part // count, len(indices) * (part + 1) // count
            result.append(indices[first:last])
    return result


def _features(model: Model, inputs: SentenceArrays, result: Contextualized) -> Floats:
    """Concatenate the unit static vector and the unit context of each token. -> [..., n, 2d]

    The context is the output of the last layer's attention if its residual is `unit`, else the
    contextual vector. If the layer has a projection for features, the context is its result, which
    also has both neighbors of the token. A zero vector stays zero.
    """
    last = model.layers[-1]
    context = result.attended if last.residual.kind == "unit" else result.contextual
    if last.features:
        context = last.features(result.attended, inputs)
    return require_finite(np.concatenate([unit(inputs.vectors), unit(context)], axis=-1))


def encode(
    model: Model,
    texts: Sequence[Text],
    options: EncodeOptions | None = None,
    limits: Limits | None = None,
) -> list[Encoded]:
    """Tokenize and encode sentences; raise the errors of `tokenize` and `encode_sentences`."""
    options = options or EncodeOptions()
    sentences = tokenize(model, texts, options, limits or Limits())
    return encode_sentences(model, sentences, options)


def cast(array: Floats, dtype: Dtype) -> Floats:
    """Convert an array to `dtype`; raise OutOfRangeError on overflow. [...] -> [...]"""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        error = FieldError(("dtype",), "a number of the response exceeds the range of float16")
        raise OutOfRangeError(error, 'Send `dtype: "float32"`.')
    return converted


def _count_chunks(texts: Iterable[Text], max_tokens: int) -> int:
    """Return the minimum number of tokens of texts: chunks between white space, or words."""
    chunks = (text.split(None, max_tokens) if isinstance(text, str) else text for text in texts)
    return sum(min(len(of_text), max_tokens) for of_text in chunks)


def _count_words(texts: Iterable[Text], max_counted: int) -> int:
    """Return the number of words of texts; stop after the text that reaches `max_counted`."""
    count = 0
    for text in texts:
        if isinstance(text, str):
            count += sum(1 for _ in islice(word_spans(text), max_counted - count))
        else:
            count += len(text)
        if count >= max_counted:
            break
    return count


def _require_known_words(sentences: Sequence[Tokenized], path: PathOfText) -> None:
    """Raise UnknownWordError with the first MAX_UNKNOWN_WORDS words outside the vocabulary."""
    errors: list[FieldError] = []
    unknown: dict[str, None] = {}
    for index, sentence in enumerate(sentences):
        for position, token in enumerate(sentence.tokens):
            if token.row is None:
                if len(unknown) < MAX_UNKNOWN_WORDS:
                    unknown[token.text] = None
                if len(errors) < MAX_ERRORS:
                    message = f"token {position} is not in the vocabulary"
                    errors.append(FieldError(path(index), message))
    if errors:
        raise UnknownWordError(errors, list(unknown))


def _require_any_known_word(sentences: Sequence[Tokenized], path: PathOfText) -> None:
    """Raise UnknownWordError for sentences in which no word has a vector."""
    errors = []
    for index, sentence in enumerate(sentences):
        words = sentence.tokens
        if not any(token.row is not None or token.composed is not None for token in words):
            message = "no word is in the vocabulary" if words else "the text has no words"
            errors.append(FieldError(path(index), message))
    if errors:
        hint = 'Remove these texts: they have no vector. `wordless: "zero"` gives zero vectors.'
        raise UnknownWordError(errors[:MAX_ERRORS], hint=hint)
