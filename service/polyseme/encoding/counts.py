"""How many tokens a request has, and how their words were found: for `usage` and who watches."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from polyseme.tokenizer import Resolution, Token

_resolution = attrgetter("resolution")


class Counts:
    """The tokens of the sentences of a request, counted as they are cut."""

    def __init__(self) -> None:
        self.tokens = 0
        self.truncated = 0
        """words that were cut off"""
        self._found: Counter[Resolution] = Counter()

    def add(self, tokens: Sequence[Token], truncated: int = 0) -> None:
        """Count a sentence."""
        self.tokens += len(tokens)
        self.truncated += truncated
        self._found.update(map(_resolution, tokens))

    @property
    def unknown(self) -> int:
        """Tokens that the vocabulary lacks, and that have no vector."""
        return self._found["oov"]

    @property
    def composed(self) -> int:
        """Tokens whose vectors are composed of their subwords."""
        return self._found["subword"]

    @property
    def fallbacks(self) -> int:
        """Tokens that were found in another case than they are written in."""
        return self.tokens - self._found["exact"] - self.unknown - self.composed
