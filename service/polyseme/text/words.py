"""Unicode words and where they stand: the first of the tokenizer's two steps.

A word keeps what belongs to it (`didn't`, `high-end`, `3.14`, `U.S.`, a web address, an emoji with
its modifiers); whether it has to be taken apart is decided later, by the vocabulary (`pieces.py`).
"""

from collections.abc import Iterator

import regex

# Every repetition that could be tried again from each character is bounded, so that hostile text
# (a megabyte of `a+a+a+…`) costs time in proportion to its length.
_PATTERN = regex.compile(
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


def words(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each word, in code points; only white space lies between them."""
    for match in _PATTERN.finditer(text):
        yield match.span()
