"""What a request of the Open Inference Protocol may say. A field that is not here is refused."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from polyseme.encoding.choice import Choice, Part, Unlisted
from polyseme.encoding.limits import Limits
from polyseme.errors import FieldError, InvalidError
from polyseme.http.requests import Layers, Texts, of_query
from polyseme.http.tensors import ElementsError, texts
from polyseme.tokenizer import Case

INPUT = "text"
OutputName: TypeAlias = Literal[
    "static", "contextual", "attention", "offsets", "attention_offsets", "tokens"
]
_PARTS: tuple[Part, ...] = ("static", "contextual", "attention")
_MOST = (1 << 31) - 1
_BESIDE = ConfigDict(extra="forbid", strict=True, frozen=True)


class InputParameters(BaseModel):
    """What the binary tensor data extension says of an input."""

    model_config = _BESIDE
    binary_data_size: Annotated[int, Field(ge=0)] | None = Field(
        None, description="how many bytes after the JSON are the tensor; it has no `data` then"
    )


def _kind_of_data(value: Any) -> str:
    return "words" if isinstance(value, list) and value and isinstance(value[0], list) else "texts"


Data: TypeAlias = Annotated[
    Annotated[Texts, Tag("texts")] | Annotated[list[Texts], Field(fail_fast=True), Tag("words")],
    Discriminator(_kind_of_data),
    Field(description="the sentences, flat or as nested as the shape"),
]


class InputTensor(BaseModel):
    """The sentences."""

    model_config = _BESIDE
    name: Literal["text"]
    datatype: Literal["BYTES"]
    shape: list[Annotated[int, Field(ge=1, le=_MOST)]] = Field(
        min_length=1, max_length=2, fail_fast=True, description="[S] or [S, 1]"
    )
    data: Data | None = None
    parameters: InputParameters | None = None

    @property
    def bytes_after(self) -> int | None:
        """How many bytes after the JSON are this tensor, where it is there."""
        return self.parameters.binary_data_size if self.parameters else None


class OutputParameters(BaseModel):
    """What the binary tensor data extension asks of an output."""

    model_config = _BESIDE
    binary_data: bool | None = Field(None, description="as bytes after the JSON")


class OutputTensor(BaseModel):
    """An output that is wanted."""

    model_config = _BESIDE
    name: OutputName
    parameters: OutputParameters | None = None


def _layers(value: Any) -> Any:
    """A parameter is a string or a number: `all`, `last`, `2` or `0,2`; a list is taken too."""
    if isinstance(value, str):
        return of_query("layers", [value])
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


class InferParameters(BaseModel):
    """What is wanted of all sentences: fields of /v1/encode of the same names."""

    model_config = _BESIDE
    binary_data_output: bool = Field(
        False, description="every output as bytes after the JSON, unless it says otherwise"
    )
    layers: Annotated[Layers, BeforeValidator(_layers)] = "all"
    heads: Literal["all", "mean"] = "all"
    oov: Unlisted | None = None
    case: Case = "auto"
    truncate: bool = False


class InferRequest(BaseModel):
    """Sentences, and which tensors are wanted of them."""

    model_config = _BESIDE
    id: Annotated[str, Field(max_length=256)] | None = Field(
        None, description="the answer has it too"
    )
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: Annotated[list[OutputTensor], Field(max_length=16)] | None = Field(
        None, description="all of them where none is named"
    )
    parameters: InferParameters | None = None

    @property
    def asked(self) -> InferParameters:
        """The parameters, also where none is given."""
        return self.parameters or InferParameters()

    def choice(self, names: frozenset[OutputName]) -> Choice:
        """What the encoder has to do for some outputs."""
        asked = self.asked
        return Choice(
            include=frozenset(part for part in _PARTS if part in names),
            layers=asked.layers,
            mean_of_heads=asked.heads == "mean",
            oov=asked.oov,
            case=asked.case,
            truncate=asked.truncate,
        )


def sentences_of(tensor: InputTensor, rest: bytes, limits: Limits) -> list[str]:
    """The sentences of a tensor, from its `data` or from the bytes after the JSON.

    Raises TooLargeError where they are too many, InvalidError where the two, or the shape, do not
    agree.
    """
    if tensor.shape[1:] not in ([], [1]):
        raise _wrong("/shape", "the shape is [S] or [S, 1], for S sentences")
    limits.sentences(tensor.shape[0])
    if (tensor.data is None) == (tensor.bytes_after is None):
        raise _wrong("", "give either `data` or `binary_data_size`")
    if len(rest) != (tensor.bytes_after or 0):
        message = "is not the number of bytes after the JSON"
        raise _wrong("/parameters/binary_data_size", message)
    return _in_json(tensor) if tensor.data is not None else _in_bytes(tensor, rest)


def _in_json(tensor: InputTensor) -> list[str]:
    found: list[str] = []
    for row in tensor.data or []:
        one = [row] if isinstance(row, str) else row
        if len(one) != 1 or (isinstance(row, list) and len(tensor.shape) == 1):
            raise _wrong("/data", "is not nested as its shape says")
        found += one
    if len(found) != tensor.shape[0]:
        raise _wrong("/data", "has another number of elements than its shape says")
    return found


def _in_bytes(tensor: InputTensor, rest: bytes) -> list[str]:
    try:
        return texts(rest, tensor.shape[0])
    except ElementsError as error:
        raise _wrong("", str(error)) from None


def _wrong(pointer: str, message: str) -> InvalidError:
    return InvalidError([FieldError(f"/inputs/0{pointer}", message)])
