"""Request schemas; an unknown field is an error."""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from polyseme.operations.compare import OccurrenceRequest
from polyseme.operations.options import (
    MAX_FORMS,
    MAX_LISTED,
    MAX_SENSES,
)
from polyseme.operations.schema import (
    ModelName,
    Phrases,
    Request,
    one_of_kinds,
)


def _kind_of_senses(value: Any) -> str | None:
    if value == "auto":
        return "<name>"
    return "<number>" if type(value) is int and 1 <= value <= MAX_SENSES else None


class SensesRequest(Request[Any]):
    """A word and texts to find its senses in, or occurrences of the word."""

    word: Annotated[str, Field(min_length=1)] | None = None
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    forms: Annotated[list[str], Field(max_length=MAX_FORMS, fail_fast=True)] = Field(
        [], description="other forms of the word, such as its plural"
    )
    case: Literal["any", "exact"] = Field(
        "any", description="match occurrences of the word in `any` case or in `exact` case"
    )
    occurrences: Annotated[list[OccurrenceRequest], Field(min_length=1, fail_fast=True)] | None = (
        None
    )
    senses: Annotated[
        Annotated[Literal["auto"], Tag("<name>")]
        | Annotated[int, Field(ge=1, le=MAX_SENSES), Tag("<number>")],
        one_of_kinds(_kind_of_senses, f'must be "auto" or an integer from 1 to {MAX_SENSES}'),
    ] = Field("auto", description="the maximum number of senses; `auto` estimates the number")
    keywords: int = Field(8, ge=0, le=MAX_LISTED, description="number of keywords of each sense")
    neighbors: int = Field(5, ge=0, le=MAX_LISTED, description="number of neighbors of each sense")
    examples: int = Field(3, ge=0, le=MAX_LISTED, description="number of examples of each sense")
    map: bool = Field(False, description="add a position in the plane to each occurrence")
    phrases: Phrases = False
    model: ModelName = None

    @model_validator(mode="after")
    def _texts_or_occurrences(self) -> "SensesRequest":
        if (self.texts is None) == (self.occurrences is None):
            raise ValueError("give either `word` and `texts`, or `occurrences`")
        if self.texts is not None and self.word is None:
            raise ValueError("`texts` requires `word`, the word whose senses are found")
        unused = {"word", "forms", "case"} & self.model_fields_set
        if self.occurrences is not None and unused:
            raise ValueError(f"{', '.join(sorted(unused))}: not used with `occurrences`")
        return self
