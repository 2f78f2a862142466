"""Write the tables of settings and errors into their pages (`make docs`)."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from polyseme.errors import PolysemeError
from polyseme.settings import Settings

HERE = Path(__file__).parent


def settings() -> Iterator[str]:
    """The rows of the table of settings."""
    for name, field in Settings.model_fields.items():
        cells = f"`POLYSEME_{name.upper()}`", _default(field), _bounds(field)
        yield f"| {' | '.join([*cells, field.description or ''])} |"


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not None or value in (None, "", ()):
        return ""
    return f"`{value.get_secret_value() if isinstance(value, SecretStr) else value}`"


def _bounds(field: FieldInfo) -> str:
    return ", ".join(
        f"{sign} {getattr(rule, kind)}"
        for rule in field.metadata
        for kind, sign in (("ge", "≥"), ("le", "≤"))
        if hasattr(rule, kind)
    )


def error_tree(base: type[PolysemeError] = PolysemeError) -> Iterator[type[PolysemeError]]:
    """Every error class."""
    yield base
    for error in base.__subclasses__():
        yield from error_tree(error)


def errors() -> Iterator[str]:
    """The rows of the table of errors, by status and code."""
    for error in sorted(error_tree(), key=lambda error: (error.status, error.code)):
        yield f"| {error.status} | `{error.code}` | {error.hint} |"


def pages() -> dict[Path, str]:
    """The text of each file, with the present rows below the head of its generated table."""
    made = {}
    for name, head, rows in (
        ("settings.md", "| variable | default | bounds | meaning |", settings()),
        ("api.md", "| status | code | what to do |", errors()),
    ):
        table = re.compile(rf"({re.escape(head)}\n[|-]+\n)(?:\|.*\n)*")
        text = "\n".join(rows) + "\n"
        page = (HERE / name).read_text("utf-8")
        made[HERE / name] = table.sub(lambda match, text=text: match[1] + text, page)
    return made


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
