"""Texts to tokens within the limits: work stops where a limit is passed."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from polyseme.encoding.limits import Limits
from polyseme.models.model import Model
from polyseme.tokenizer import Case, Token, Tokenizer, words

Text: TypeAlias = str | Sequence[str]
"""A sentence, or the words of one that is already tokenised."""
Cut: TypeAlias = tuple[list[Token], int]
"""The tokens of a text, and how many words were cut off."""


def cut_texts(
    texts: Sequence[Text],
    model: Model,
    case: Case,
    limits: Limits,
    *,
    truncate: bool = False,
    subwords: bool = True,
) -> Iterator[Cut]:
    """Yield the tokens of each text, and how many words were cut off where it is over the limit.

    Without `subwords` no word is composed, whatever the model has. Raises TooLargeError where one
    text is over its limit and not to be cut, or all together are.
    """
    tokenizer = model.tokenizer if subwords else model.plain_tokenizer
    total = 0
    for number, text in enumerate(texts):
        tokens, over = _cut(text, tokenizer, case, limits.max_sentence_tokens)
        if over and not truncate:
            limits.sentence_tokens(len(tokens) + over)
        total += len(tokens)
        if total > limits.max_tokens:
            limits.tokens(total + sum(map(_count, texts[number + 1 :])))
        yield tokens, over


def cut_traced(text: str, model: Model, case: Case, limits: Limits) -> list[Token]:
    """The tokens of a text to be traced."""
    tokens, over = _cut(text, model.tokenizer, case, limits.max_trace_tokens)
    limits.trace_tokens(len(tokens) + over)
    return tokens


def _cut(text: Text, tokenizer: Tokenizer, case: Case, most: int) -> Cut:
    """The first tokens of a text, and how many words are left: counted, not looked up."""
    if not isinstance(text, str):
        kept = tokenizer.words(text[:most], case)
        return kept, len(text) - len(kept)
    tokens = tokenizer.tokens(text, case, most + 1)
    if len(tokens) <= most:
        return tokens, 0
    return tokens[:most], _count(text[tokens[most].start or 0 :])


def _count(text: Text) -> int:
    return sum(1 for _ in words(text)) if isinstance(text, str) else len(text)
