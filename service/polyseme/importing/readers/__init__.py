"""Readers of files of vectors, a module for each kind of file; the module registers its formats."""

from importlib import import_module
from pkgutil import iter_modules

from polyseme.importing.files import VectorFile
from polyseme.importing.options import ImportOptions, ImportProblem
from polyseme.importing.readers.base import HEADER, READERS, Reader, as_utf8

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def open_reader(file: VectorFile, options: ImportOptions) -> tuple[str, Reader]:
    """Return the format of a file, declared or detected, and its reader.

    A file of an unknown format has a reader of text, which rejects it with the reason.
    """
    head = file.head()
    format_ = options.format or detect_format(head, options)
    if format_ is None:
        even, odd = (bool(head[start:200:2].strip(b"\0")) for start in (0, 1))
        if even != odd and len(head) > 3:
            problem = "The file is UTF-16 or UTF-32 without a byte order mark."
            raise ImportProblem(problem, "encoding")
        format_ = "word2vec-text" if HEADER.match(as_utf8(head, options)) else "glove"
    return format_, READERS[format_](file, options, head)


def detect_format(head: bytes, options: ImportOptions) -> str | None:
    """Detect a format by the first bytes of a file; return None for an unknown format."""
    text = as_utf8(head, options)
    formats = (name for name, reader in READERS.items() if reader.recognizes(head, text))
    return next(formats, None)
