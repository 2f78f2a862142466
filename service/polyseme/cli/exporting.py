"""`polyseme models export`: a model's static vectors for other programs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import with_registry
from polyseme.models.export import export_projector, export_word2vec
from polyseme.models.registry import Registry
from polyseme.settings import Settings


@click.command("export")
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["word2vec-text", "projector"]),
    default="word2vec-text",
    show_default=True,
    help="One text file, or the Embedding Projector's vectors.tsv and metadata.tsv.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file; for the projector the folder, which is made where it is missing.",
)
@click.option("--limit", type=click.IntRange(1), help="Write so many words at most.")
@with_registry
def export(
    name: str,
    kind: str,
    output: Path,
    limit: int | None,
    registry: Registry,
    settings: Settings,  # noqa: ARG001
) -> None:
    """Write the static vectors of a model in a format that other programs read."""
    model = registry.model(name)
    with cleaning_up():
        if kind == "projector":
            with _folder(output):
                files = output / "vectors.tsv", output / "metadata.tsv"
                left = export_projector(model, *files, limit)
        else:
            left = export_word2vec(model, output, limit)
    if left:
        click.echo(f"polyseme: {left} words with white space were left out.", err=True)


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder where it is missing; one that stays empty goes again."""
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        if made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
