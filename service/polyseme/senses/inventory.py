"""Inventories: the senses of a word as a document, which is saved and applied to other texts.

The document is JSON that anybody may send or edit, so every part of it is checked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from pydantic import model_validator as validated

from polyseme.atomic_files import atomic_write
from polyseme.engine import Floats
from polyseme.errors import FieldError, InvalidError
from polyseme.models.manifest import MAX_WIDTH, NAME_PATTERN
from polyseme.models.model import Model
from polyseme.operations.compare import Occurrences, WordForms
from polyseme.operations.limits import Limits, stage
from polyseme.operations.schema import (
    MAX_LISTED,
    STRICT,
    ModelName,
    OneLine,
    Request,
    SentenceList,
    Vector,
    invalid_fields,
)
from polyseme.senses.clustering import Clusterings, assign
from polyseme.senses.occurrences import find_projection, locate, project, surround

Matching: TypeAlias = Literal["any", "exact"]
"""Whether an occurrence may differ from the word in case."""
FORMAT: Final = "polyseme-senses"
VERSION = 1
MAX_SENSES, MAX_FORMS = 20, 64
"""Maximum number of senses, and of other forms of the word."""
MAX_LABEL = 100
"""Maximum number of characters of a label."""
MAX_FILE_BYTES = 32 << 20
LABEL_WORDS = 3
"""The number of keywords in the label of a sense that nobody has named."""
UNSURE = 0.05
"""The share of the clustered occurrences of a sense that would be `unsure`."""
_TOLERANCE = 1e-3


def _read_centroid(values: Any) -> NDArray[np.float32]:
    """Read a row of norm 1, or of zeros. -> [r]"""
    try:
        values = _NUMBERS.validate_python(values)
    except ValidationError:
        raise ValueError(f"must be a list of 1 to {MAX_WIDTH} finite numbers") from None
    with np.errstate(over="ignore"):
        centroid = np.array(values, np.float32)
    if centroid.any() and not abs(np.linalg.norm(centroid.astype(np.float64)) - 1) < _TOLERANCE:
        raise ValueError("must have the length 1, or be zero")
    return centroid


def _known_version(version: int) -> int:
    if version != VERSION:
        raise ValueError(f"must be {VERSION}: this release reads no other version")
    return version


_NUMBERS = TypeAdapter(Vector, config=ConfigDict(strict=True))
Centroid: TypeAlias = Annotated[
    NDArray[np.float32], PlainValidator(_read_centroid, json_schema_input_type=list[float])
]
"""The direction of a sense, of norm 1; zero if no context has a known word. [r]"""
Label: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]


@dataclass(frozen=True)
class Keyword:
    """A context word that is typical of a sense."""

    __pydantic_config__ = STRICT
    word: str
    weight: float
    """attention times informativeness, times this sense's share of the total"""

    def __iter__(self) -> Any:
        """Yield the word and the weight."""
        return iter((self.word, self.weight))


@dataclass(frozen=True, repr=False)
class StoredSense(OneLine):
    """A sense of an inventory."""

    __pydantic_config__ = STRICT
    label: Label
    """the name of the sense, which may be changed; at first its keywords"""
    size: Annotated[int, Field(ge=0)]
    """number of occurrences that the sense was found in"""
    keywords: Annotated[list[Keyword], Field(max_length=MAX_LISTED)]
    centroid: Centroid
    threshold: Annotated[float, Field(ge=-1, le=1)]
    """an occurrence whose cosine with the centroid is smaller is `unsure`"""


def _of_one_width(senses: list[StoredSense]) -> list[StoredSense]:
    if len({sense.centroid.size for sense in senses}) != 1:
        raise ValueError("must have centroids of one length")
    return senses


@dataclass(frozen=True, repr=False)
class SenseInventory(OneLine):
    """The senses of a word, to apply to other texts. Only labels may be changed."""

    __pydantic_config__ = STRICT
    format: Literal["polyseme-senses"]
    version: Annotated[int, AfterValidator(_known_version)]
    model: Annotated[str, Field(pattern=NAME_PATTERN)]
    """the name of the model that found the senses"""
    checksum: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """sha256 of the model's files"""
    word: Annotated[str, Field(min_length=1)]
    forms: Annotated[list[str], Field(max_length=MAX_FORMS)]
    case: Matching
    phrases: bool
    several: Annotated[float, Field(ge=0, le=1)]
    """the probability of more than one sense"""
    separation: Annotated[float, Field(ge=-1, le=1)]
    """mean silhouette; 0 for one sense"""
    senses: Annotated[
        list[StoredSense],
        Field(min_length=1, max_length=MAX_SENSES),
        AfterValidator(_of_one_width),
    ]

    @property
    def word_forms(self) -> WordForms:
        """How occurrences of the word are found."""
        return WordForms((self.word, *self.forms), self.case == "exact", self.phrases)

    def save(self, path: str | Path) -> None:
        """Write the document to a file. Raises OSError if that is not possible."""
        atomic_write(Path(path), self.to_json())

    def to_json(self) -> bytes:
        """Return the document."""
        return orjson.dumps(self, option=orjson.OPT_SERIALIZE_NUMPY)

    def with_labels(self, labels: Sequence[str]) -> "SenseInventory":
        """Return the inventory with a label for each sense, the largest sense first.

        Raises InvalidError if there are more or fewer labels than senses, or one is empty, too long
        or used twice.
        """
        count = len(self.senses)
        if len(labels) != count or len({*labels}) != count:
            message = f"must be {count} different labels, one for each sense"
            raise InvalidError([FieldError(("labels",), message)])
        pairs = zip(self.senses, labels, strict=True)
        senses = [replace(sense, label=label) for sense, label in pairs]
        return read_inventory(replace(self, senses=senses).to_json())


_INVENTORY = TypeAdapter(SenseInventory)


def read_inventory(content: bytes) -> SenseInventory:
    """Read a document. Raises InvalidError if it is not an inventory."""
    try:
        orjson.loads(content)
        return _INVENTORY.validate_json(content, strict=True)
    except orjson.JSONDecodeError:
        invalid = InvalidError([FieldError((), "is not well-formed JSON")])
    except ValidationError as error:
        invalid = invalid_fields(ApplySensesRequest, error)
    invalid.detail = "This is not an inventory of senses."
    raise invalid


def load_inventory(path: str | Path) -> SenseInventory:
    """Read a file. Raises OSError, or InvalidError if it is not an inventory."""
    with Path(path).open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        message = f"the file has more than {MAX_FILE_BYTES >> 20} MiB"
        raise InvalidError([FieldError((), message)], "An inventory has a few kilobytes.")
    return read_inventory(content)


def inventory_of(
    model: Model, word: WordForms, clusterings: Clusterings, keywords: Sequence[list[Keyword]]
) -> SenseInventory:
    """Return the inventory of clusters with these keywords."""
    clusters, stored = clusterings.chosen, list[StoredSense]()
    for index, centroid in enumerate(clusters.centroids):
        cosines = clusters.cosines[clusters.labels == index]
        # Without a known word in any context, every occurrence is unsure.
        threshold = float(np.quantile(leave_one_out(cosines), UNSURE)) if centroid.any() else 1.0
        # Two senses may have the same first keywords.
        words = [keyword.word for keyword in keywords[index]]
        named = (" ".join(words[:most])[:MAX_LABEL] for most in range(LABEL_WORDS, len(words) + 1))
        labels = {sense.label for sense in stored}
        default = f"sense {index + 1}"
        label = next((name for name in named if name and name not in labels), default)
        direction = centroid.astype(np.float32)
        stored.append(
            StoredSense(label, len(cosines), keywords[index], direction, round(threshold, 4))
        )
    return SenseInventory(
        FORMAT,
        VERSION,
        model.manifest.name,
        model.manifest.checksum,
        word.forms[0],
        [*word.forms[1:]],
        "exact" if word.exact else "any",
        word.phrases,
        round(clusterings.several, 4),
        round(clusters.separation, 4),
        stored,
    )


def leave_one_out(cosines: Floats) -> Floats:
    """Return the cosine of each point of a cluster with the centroid of the others. [s] -> [s]

    `cosines` are those with the centroid of all. The sum of points of norm 1 has the length R =
    Σ cos, and without a point x, whose cosine is c, the cosine is (R·c − 1) / √(R² − 2·R·c + 1).
    """
    total = cosines.sum()
    rest = np.sqrt(np.maximum(total**2 - 2 * total * cosines + 1, 1e-12))
    left_out: Floats = np.clip((total * cosines - 1) / rest, -1, 1)
    return left_out


class ApplySensesRequest(Request["AppliedSenses"]):
    """An inventory, and texts or occurrences to assign its senses to."""

    inventory: SenseInventory
    """the inventory that /v1/senses returns with `inventory`"""
    texts: SentenceList | None = None
    """strings or lists of words; every occurrence of the word in them gets a sense"""
    occurrences: Occurrences | None = None
    model: ModelName = None

    @validated(mode="after")
    def check_source(self) -> Self:
        """Raise ValueError unless there are either texts or occurrences."""
        if (self.texts is None) == (self.occurrences is None):
            raise ValueError("give either `texts` or `occurrences`")
        return self

    def find_model(self, get_model: Callable[[str | None], Model]) -> Model:
        """Return the model of the request, by default that of the inventory."""
        return get_model(self.model or self.inventory.model)


@dataclass(frozen=True)
class AppliedOccurrence:
    """An occurrence and the nearest sense of an inventory."""

    text: int
    """index in `texts`, or in `occurrences`, of the request"""
    start: int | None
    end: int | None
    sense: int
    label: str
    confidence: float
    """0 to 1"""
    unsure: bool
    """whether the occurrence fits no sense of the inventory"""
    index: int | None = None
    """of the word in a list of words"""

    @property
    def offset(self) -> int | None:
        """The start in a string, or the index in a list of words."""
        return self.start if self.index is None else self.index


@dataclass(frozen=True, repr=False)
class AppliedSenses(OneLine):
    """The occurrences of a word in texts, with the senses of an inventory."""

    model: str
    word: str
    occurrences: list[AppliedOccurrence]
    unsure: float
    """the proportion of the occurrences that are `unsure`; it rises when a new sense appears"""


def apply_senses(
    model: Model, request: ApplySensesRequest, limits: Limits | None = None
) -> AppliedSenses:
    """Assign the nearest sense of an inventory to each occurrence of its word.

    Raises InvalidError if another model found the senses, or an occurrence is not in its text,
    TooLargeError if there are too many, and the errors of `tokenize`.
    """
    inventory, limits = request.inventory, limits or Limits()
    projection = find_projection(model)
    centroids = np.stack([sense.centroid for sense in inventory.senses])
    if (
        inventory.checksum != model.manifest.checksum
        or centroids.shape[1] != projection.directions.shape[1]
    ):
        message = f"another model than {model.manifest.name} found these senses"
        hint = "Use the model that the inventory names in `model`, or find the senses again."
        raise InvalidError([FieldError(("inventory",), message)], hint)
    with stage("tokens"):
        sentences, positions, texts, indices, _ = locate(
            model, request.texts, request.occurrences, inventory.word_forms, limits
        )
    if not texts:
        return AppliedSenses(model.manifest.name, inventory.word, [], 0.0)
    with stage("attention"):
        rows = surround(model, [sentence.tokens for sentence in sentences], positions)
        labels, confidence, cosines = assign(project(rows, projection), centroids)
    thresholds = np.array([sense.threshold for sense in inventory.senses])
    unsure = cosines < thresholds[labels]
    spans = zip((one.with_offsets() for one in sentences), positions, strict=True)
    tokens = (of_sentence[i] for of_sentence, at in spans for i in at)
    columns = [one.tolist() for one in (labels, confidence.round(4), unsure)]
    occurrences = [
        AppliedOccurrence(text, token.start, token.end, i, inventory.senses[i].label, *rest)
        for text, token, i, *rest in zip(texts, tokens, *columns, indices, strict=True)
    ]
    occurrences.sort(key=attrgetter("text"))
    share = round(float(unsure.mean()), 4)
    return AppliedSenses(model.manifest.name, inventory.word, occurrences, share)
