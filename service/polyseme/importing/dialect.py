"""How the lines of a text file are divided into a word and its values.

GloVe, word2vec and fastText write one space between fields. Other programs write tabs or commas,
quotation marks, an index, or the names of the columns. The first lines tell the dialect; files
whose lines have another content than a word and its values are rejected.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyseme.errors import counted
from polyseme.importing import ImportProblem

UNKNOWN = (
    "The format is unknown: line 1 is neither a word and its values nor a word2vec header, and the"
    " file is not a fastText .bin."
)
_WIDE_SPACE = re.compile(rb"\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe3\x80\x80")
"""The spaces of Unicode, in UTF-8."""
_MINUS = "\N{MINUS SIGN}".encode()
_SEPARATOR = re.compile(rb"[,;|]?|%b" % _WIDE_SPACE.pattern)
"""What may be between two values, beside white space."""
_INDEX = re.compile(rb"\"?(\d+)[.:)]?\"?(?:\s|[,;|])+(?=.)")
_PAIR = re.compile(
    rb"[\s,;|{(][^\s:=,;|]+\s*[:=]\s*[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[-+]?\d+)?(?![^\s,;|})])",
    re.IGNORECASE,
)
_BRACKETS = re.compile(rb"[\[({]\s*[-+.\d][^\[({]*[\])}]+[\"',;]*$")
_DOUBLED = re.compile(rb'(?:[^"]|"")*')
"""The content of quotation marks, with two for one; write.table of R writes a backslash first."""
_CSV = {b",", b";"}
"""Separators with which words may be in quotation marks."""
_HEADINGS = {b"", b"id", b"index", b"key", b"name", b"term", b"token", b"word", b"words"}
"""Names of a column of words or of indices."""
_WHOLE = re.compile(rb"(\d+)(\.0*)?")
_MIN_LARGE, _MIN_MANY, _MIN_SHARE = 1000, 10, 0.9
"""A whole number as large, and a column of as many, is no value, if most others have fractions."""
_COLUMN = "A column of whole numbers, such as frequencies or ranks, is {}; remove it."
_MIN_ROWS = {False: 2, True: 3}
"""Minimum number of rows whose first numbers are compared, by whether the user names the format."""


class Notation:
    """How numbers are written: with a decimal point or with a decimal comma."""

    def __init__(self, mark: bytes, separators: bytes) -> None:
        digits = rb"\d+%b\d*|%b\d+" % (re.escape(mark), re.escape(mark))
        fraction = rb"[-+]?(?:(?:%b)(?:e[-+]?\d+)?|\d+e[-+]?\d+)" % digits
        numeral = rb"%b|[-+]?(?:\d+|nan|inf(?:inity)?)" % fraction
        self.fraction = re.compile(fraction, re.IGNORECASE)
        """a number that looks like a value rather than like a part of a word"""
        self.numeral = re.compile(numeral, re.IGNORECASE)
        self.gap = re.compile(rb"((?:\s|%b|%b)+)" % (separators, _WIDE_SPACE.pattern))
        """what may be between a word and a value, or between two values"""


POINT, COMMA = Notation(b".", b"[,;|:=]"), Notation(b",", b'[;|:=]|(?<="),(?=")')


@dataclass(frozen=True)
class Line:
    """A line, divided at everything that may separate values."""

    pieces: list[bytes]
    """the fields, and between them the gaps"""
    count: int
    """how many fields at the end are numbers with the same separator"""

    @classmethod
    def of(cls, line: bytes, notation: Notation) -> "Line":
        """Divide a line. The first field is never a number."""
        pieces = notation.gap.split(line.strip())
        if not pieces[-1]:  # a separator follows the last number
            pieces = pieces[:-2]
        count, separators = 0, set[bytes]()
        for i in range(len(pieces) - 1, 0, -2):
            if count:
                separators.add(pieces[i + 1].strip())
            alike = len(separators) < 2 and all(map(_SEPARATOR.fullmatch, separators))
            if not alike or not notation.numeral.fullmatch(pieces[i].strip(b'"')):
                break
            count += 1
        return cls(pieces, count)

    def head(self, dimension: int) -> bytes:
        """Return what precedes the last numbers, with the gap after it."""
        return b"".join(self.pieces[: 1 - 2 * dimension])

    def values(self, dimension: int) -> list[bytes]:
        """Return the last numbers, without quotation marks."""
        return [field.strip(b'"') for field in self.pieces[1 - 2 * dimension :: 2]]

    def gaps(self, dimension: int) -> list[bytes]:
        """Return the gap before each of the last numbers."""
        return self.pieces[-2 * dimension :: 2]


@dataclass(frozen=True)
class Dialect:
    """How lines are divided into a word and its values."""

    dimension: int
    declared: bool
    """whether a header declares the dimension"""
    notation: Notation
    mark: bytes
    """what follows a word beside white space"""
    names: bool
    """whether line 1 has the names of the columns"""
    index: bool = False
    """whether an index precedes the word"""
    quoted: bool = False
    """whether words may be in quotation marks"""
    separator: bytes | None = None
    """what is between all fields of an ordinary line; None if other things are between them"""

    def divide(self, line: bytes) -> tuple[bytes, bytes] | None:
        """Return the word of a line, and its values separated by spaces.

        Returns None if the line has another number of values: fewer, or one before the others that
        looks like a value. An integer there is a part of the word, `route 66`, if the dimension is
        declared or the values have fractions.
        """
        if self.separator:
            word, separator, values = line.partition(self.separator)
            others = line.count(b'"') if self.quoted else 0
            others += values.count(b" ") if self.separator != b" " else 0
            fits = values.count(self.separator) == self.dimension - 1 and not others
            if separator and fits and not _WIDE_SPACE.search(word):
                return word, self._plain(values.replace(self.separator, b" "))
        divided = Line.of(line, self.notation)
        fraction, numeral = self.notation.fraction, self.notation.numeral
        head, fields = divided.head(self.dimension), divided.values(self.dimension)
        word = head.rstrip()
        if divided.count < self.dimension or not (
            word.endswith(self.mark) if self.mark else head[-1:].isspace()
        ):
            return None
        word = word[: len(word) - len(self.mark)].rstrip()
        if self.index:
            match = _INDEX.match(word)
            word = word[match.end() :] if match else b""
        if self.quoted and len(word) > 1 and word[:1] == word[-1:] == b'"':
            mark = b'""' if _DOUBLED.fullmatch(word[1:-1]) else b'\\"'
            word = word[1:-1].replace(mark, b'"')
        elif self.quoted and self.mark in _CSV and self.mark in word:
            return None
        elif divided.count > self.dimension and not (self.index and numeral.fullmatch(word)):
            extra = divided.values(divided.count)[: -self.dimension]
            integers = self.declared or any(map(fraction.fullmatch, fields))
            if not integers or any(map(fraction.fullmatch, extra)):
                return None
        return word, self._plain(b" ".join(fields))

    def _plain(self, values: bytes) -> bytes:
        return values.replace(b",", b".") if self.notation is COMMA else values

    def problem(self, line: bytes) -> str:
        """Return why a line cannot be divided."""
        divided = Line.of(line, self.notation)
        count, is_number = divided.count, self.notation.numeral.fullmatch(divided.pieces[0])
        if count == self.dimension - 1 and is_number and line[:1].isspace():
            return "has no word"
        expected = f"{'line 1 declares' if self.declared else 'most lines have'} {self.dimension}"
        if count == self.dimension and self.mark in _CSV and line.count(self.mark) > count:
            return "has more than one column before its values"
        if count == self.dimension:
            return "separates the word from its values in another way than other lines"
        return f"has {counted(count, 'value')}, but {expected}"

    def __str__(self) -> str:
        """Return what is not a part of the words and the values."""
        parts = {
            "the names of the columns in line 1": self.names,
            "the index before each word": self.index,
            "the quotation marks around each word": self.quoted and self.mark not in _CSV,
            "the colon after each word": self.mark == b":",
        }
        return ", ".join(part for part, present in parts.items() if present)


def detect_dialect(lines: Sequence[bytes], declared: int | None, *, named: bool) -> Dialect:
    """Detect the dialect from the first lines that are not blank, without the header.

    `declared` is the dimension in the header, None without one; `named` is whether the user names
    the format, so that few whole numbers may be values. Raises ImportProblem for other contents.
    """
    _reject_pairs_and_brackets(lines)
    reading = _Reading(lines, POINT)
    if reading.rank[0] < len(lines):
        reading = max(reading, _Reading(lines, COMMA), key=lambda one: one.rank)
    notation, dimension = reading.notation, reading.dimension
    if not reading.is_common:
        if declared is None:
            raise ImportProblem(UNKNOWN)
        dimension = declared
    rows = reading.rows(dimension)
    _reject_whole_numbers(rows, notation, extra=declared == dimension - 1, named=named)
    if declared not in {None, dimension}:
        raise ImportProblem(
            f"Line 1 declares vectors of dimension {declared}, but most lines have {dimension}"
            " values."
        )
    _reject_other_numbers(rows, dimension)
    rows = [line for line in rows if line.pieces[0]]
    marks = Counter(line.gaps(dimension)[0].strip() for line in rows)
    mark = marks.most_common(1)[0][0] if marks else b""
    marked = sum(marks[other] for other in marks if other.endswith(mark))
    between = {gap.strip() for line in rows for gap in line.gaps(dimension)[1:]}
    certain = len(rows) > 1 or mark in between  # a single word may end with a mark
    dialect = Dialect(
        dimension,
        declared=declared is not None,
        notation=notation,
        mark=mark if certain and 2 * marked > len(rows) else b"",
        names=declared is None and len(lines) > 1 and _are_names(lines[0], dimension, notation),
    )
    words = [(dialect.divide(line) or (b"",))[0] for line in lines[dialect.names :]]
    _reject_numbers(words, dialect)
    starts = Counter(int(m[1]) - i for i, word in enumerate(words) if (m := _INDEX.match(word)))
    index = max(2 * starts[0], 2 * starts[1]) > len(words) > 1
    if not index and 2 * starts.total() > len(words) > 1:
        raise ImportProblem(_COLUMN.format("before the word"))
    if index:
        words = [word[match.end() :] for word in words if (match := _INDEX.match(word))]
    quotes = sum(len(word) > 1 and word[:1] == word[-1:] == b'"' for word in words)
    quoted = 2 * quotes > len(words) or dialect.mark in _CSV
    gaps = (set(line.gaps(dimension)) for line in rows)
    separators = Counter(gap for one in gaps if len(one) == 1 for gap in one)
    separator = separators.most_common(1)[0][0] if separators else b""
    indented = 2 * sum(line[:1].isspace() for line in lines) > len(lines)
    bare = not any(b'"' in piece for line in rows for piece in line.pieces[1 - 2 * dimension :])
    ordinary = separator and bare and dialect.mark == separator.strip() and not (index or indented)
    return replace(dialect, index=index, quoted=quoted, separator=separator if ordinary else None)


class _Reading:
    """Lines in a notation, and the most common number of values."""

    def __init__(self, lines: Sequence[bytes], notation: Notation) -> None:
        self.notation, self.lines = notation, [Line.of(line, notation) for line in lines]
        counts = Counter(line.count for line in self.lines if line.count)
        self.dimension, count = counts.most_common(1)[0] if counts else (0, 0)
        self.is_common = count > 0 and 2 * count >= len(lines)
        # In the right notation, few words end with a number.
        rows = self.rows(self.dimension)
        words = [row.pieces[: -2 * self.dimension] for row in rows]
        ends = [word[-1] for word in words if len(word) > 1]
        wrong = sum(any(one.numeral.fullmatch(end) for one in (POINT, COMMA)) for end in ends)
        # A decimal comma divides a value in quotation marks.
        wrong += sum(sum(one.count(b'"') == 1 for one in row.pieces[2:]) > 2 for row in rows)
        self.rank = count - wrong, self.dimension

    def rows(self, dimension: int) -> list[Line]:
        """Return the lines that have this number of values."""
        return [line for line in self.lines if line.count == dimension > 0]


def _are_names(line: bytes, dimension: int, notation: Notation) -> bool:
    """Return whether a line has names, which may be 0 to d − 1 or 1 to d, in place of values."""
    fields = [field.strip(b'"') for field in notation.gap.split(line.strip())[::2]]
    if fields[0] and fields[0].lower() in _HEADINGS and not Line.of(line, notation).count:
        return True
    before, names = fields[:-dimension], fields[-dimension:]
    if len(names) < dimension or len(before) > 2:
        return False
    counted = [[b"%d" % (start + i) for i in range(dimension)] for start in (0, 1)]
    if names in counted:
        return all(name.lower() in _HEADINGS for name in before)
    if len(set(names)) < dimension or Line.of(line, notation).count:  # such as NA NA NA
        return False
    return all(name[:1].isalpha() for name in names)


def _reject_pairs_and_brackets(lines: Sequence[bytes]) -> None:
    """Raise ImportProblem if most lines have sparse vectors, or values in brackets."""
    pairs = [_PAIR.subn(b"", line) for line in lines]
    if 2 * sum(count >= len(rest.split()) > 0 for rest, count in pairs) > len(lines):
        raise ImportProblem(
            "The values are index:value pairs, as in sparse vectors, which are not supported; write"
            " all values of each vector."
        )
    if 2 * sum(bool(_BRACKETS.search(line.strip())) for line in lines) > len(lines):
        raise ImportProblem("The values are in brackets; remove these.")


def _reject_whole_numbers(
    rows: Sequence[Line], notation: Notation, *, extra: bool, named: bool
) -> None:
    """Raise ImportProblem if the first or last values are frequencies or ranks.

    They are if the header does not count the first, or if they are whole, unlike the others, and
    large, in order or many.
    """
    values = [line.values(line.count) for line in rows]
    if len(rows) < _MIN_ROWS[named]:
        return
    for column, where in ((0, "between the word and its values"), (-1, "after the values")):
        whole = [_WHOLE.fullmatch(row[column]) for row in values]
        counts = [int(match[1]) for match in whole if match]
        if len(counts) < len(rows):
            continue
        others = [value for row in values for value in (row[1:] if column == 0 else row[:-1])]
        if not others and not named and len(set(counts)) > 1:
            raise ImportProblem(
                "The lines have one whole number each, as in a list of frequencies, not vectors."
            )
        fractions = sum(map(bool, map(notation.fraction.fullmatch, others)))
        bare = not any(match and match[2] for match in whole)
        ordered = column == 0 and counts in (sorted(counts), sorted(counts, reverse=True))
        small = bare and len(set(counts)) > 1 < max(counts) and (ordered or len(rows) >= _MIN_MANY)
        unlike = fractions > _MIN_SHARE * len(others) and (small or max(counts) > _MIN_LARGE)
        if unlike or (extra and column == 0):
            raise ImportProblem(_COLUMN.format(where))


def _reject_other_numbers(rows: Sequence[Line], dimension: int) -> None:
    """Raise ImportProblem if most words have numbers in them, and do not only begin with one."""
    count = 0
    for line in rows:
        head = [piece.replace(_MINUS, b"-") for piece in line.pieces[: 1 - 2 * dimension]]
        count += any(
            POINT.fraction.fullmatch(field)
            or COMMA.fraction.fullmatch(field)
            or (POINT.numeral.fullmatch(field) and not gap.strip())
            for gap, field in zip(head[1:-1:2], head[2::2], strict=True)
        )
    if 2 * count > len(rows):
        raise ImportProblem(
            "Most lines have other numbers between the word and its values, perhaps values in"
            " another notation; remove or rewrite them."
        )


def _reject_numbers(words: Sequence[bytes], dialect: Dialect) -> None:
    """Raise ImportProblem if the words are the values of a matrix, or an index of named columns.

    Other distinct integers are words.
    """
    numerals = [word for word in words if dialect.notation.numeral.fullmatch(word.strip(b'"'))]
    unlike = any(map(dialect.notation.fraction.fullmatch, numerals)) or dialect.names
    if len(numerals) == len(words) > 1 and (unlike or len(set(numerals)) < len(numerals)):
        raise ImportProblem("The lines have numbers only; each has to begin with a word.")
