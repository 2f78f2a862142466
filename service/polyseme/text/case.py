"""Which spellings of a word are looked up, in which order, and what each is called."""

import unicodedata
from collections.abc import Iterator
from typing import Literal, TypeAlias

Case: TypeAlias = Literal["auto", "exact", "lower"]
Resolution: TypeAlias = Literal["exact", "lower", "capitalised", "upper", "subword", "oov"]


def spellings(word: str, case: Case) -> Iterator[tuple[str, Resolution]]:
    """Yield (spelling, resolution) in the order of looking up; the same spelling may come twice.

    `auto` is the word as written, else lower-case, capitalised, upper-case. A word in another
    Unicode normal form or with a typographic apostrophe counts as written the same.
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
