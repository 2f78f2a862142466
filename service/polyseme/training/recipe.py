"""The recipe: every number that a training depends on, kept with what comes of it."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from polyseme.engine.layers import NormPlace

Init: TypeAlias = Literal["model", "closed-form", "random"]
Keep: TypeAlias = Literal["last", "best"]
Part = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]

MOST_OCCURRENCES = 16_384
"""of a step: each is compared with each, in a matrix of 1 GiB"""
COARSEWSD = (
    *("apple", "arm", "bank", "bass", "bow", "chair", "club", "crane", "deck", "digit"),
    *("hood", "java", "mole", "pitcher", "pound", "seal", "spring", "square", "trunk", "yard"),
)
"""The words of CoarseWSD-20: what is trained on them cannot be measured with it."""


class Recipe(BaseModel):
    """Everything but the data. Two trainings of one recipe on one material give the same bits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Where it starts.
    init: Init = "model"
    heads: int | None = Field(None, ge=1, le=1024)
    key_width: int | None = Field(None, ge=1, le=4096)
    """of one head"""
    value_width: int | None = Field(None, ge=1, le=4096)
    """of one head"""
    layers: int | None = Field(None, ge=1, le=64)
    norm: NormPlace = "none"
    feed_forward: int | None = Field(None, ge=1, le=65_536)
    """the width inside; None for none"""
    seed: int = Field(1, ge=0, lt=1 << 32)

    # How long, and how fast.
    steps: int | None = Field(None, ge=0, le=100_000_000)
    minutes: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    learning_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    schedule: Literal["constant", "cosine"] = "cosine"
    threads: int = Field(1, ge=1, le=256)

    # What a step looks at.
    groups: int = Field(24, ge=1, le=4096)
    """groups of a step: lemmas, or pseudo-words"""
    occurrences: int = Field(16, ge=2, le=1024)
    """occurrences of a group in a step, at most"""
    pseudo_words: int = Field(3, ge=2, le=4096)
    """words that make a pseudo-word; with many, each is told from all the others of a step"""
    word_occurrences: int | None = Field(None, ge=2, le=1024)
    """occurrences of each of them in a step; None for its part of `occurrences`"""
    commonest_words: int | None = Field(None, ge=2, le=100_000_000)
    """only so many of the corpus's most frequent words are made pseudo-words; None for all"""
    mix: Part = 0.5
    """the part of the groups that comes from the corpus, where there are tags as well"""
    corpus_words: int = Field(4_000_000, ge=1, le=1_000_000_000)
    """words of the corpus that are kept in memory: a sample of its paragraphs"""
    window: int = Field(30, ge=1, le=10_000)
    """words of a context on either side, at most"""
    cut: Part = 0.3
    """the part of the contexts that is cut shorter, to 2 to 8 words on either side"""
    key_dropout: float = Field(0.15, ge=0, lt=1)
    """the part of the context's words that is hidden at random"""
    hide: Part = 0.0
    """the part of the tagged words that are hidden themselves, so that only their context tells"""
    lower: Part = 0.0
    """the part of the contexts that is read in lower case"""
    leave_out: tuple[str, ...] = COARSEWSD
    """words that are never targets"""

    # What it minimises.
    temperature: float = Field(0.4, gt=0, le=100, allow_inf_nan=False)
    """where the learned temperature starts"""
    anchor: Strength = 2e-4
    """how much a weight is pulled to where it started"""
    tune_embeddings: bool = False
    embedding_anchor: Strength = 0.1
    """the same for the vectors, where they are learned as well"""
    embedding_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    """the learning rate of the vectors"""

    # What comes of it.
    interpolate: Part = 0.6
    """start·(1 − t) + trained·t"""
    keep: Keep = "last"
    held_out: float = Field(0.1, ge=0, le=0.5)
    """the part of the lemmas, or words, that is never trained on"""
    split: int = Field(1, ge=0, lt=1 << 32)
    """the seed of which ones those are"""
    fewest: int = Field(8, ge=2, le=1000)
    """a held-out sense is measured where it has so many occurrences"""
    score_every: int = Field(100, ge=1, le=1_000_000)
    """steps"""

    @property
    def of_each_word(self) -> int:
        """Occurrences of each word of a pseudo-word in a step."""
        return self.word_occurrences or max(2, self.occurrences // self.pseudo_words)

    @model_validator(mode="after")
    def _small_enough(self) -> "Recipe":
        largest = max(self.occurrences, self.pseudo_words * self.of_each_word)
        if self.groups * largest > MOST_OCCURRENCES:
            raise ValueError(
                f"groups · occurrences, and groups · pseudo_words · word_occurrences, have to be at"
                f" most {MOST_OCCURRENCES}"
            )
        return self

    def differences(self, other: "Recipe") -> list[str]:
        """The names of the fields in which two recipes differ."""
        mine, others = self.model_dump(), other.model_dump()
        return [name for name in mine if mine[name] != others[name]]

    def document(self) -> dict[str, Any]:
        """What the manifest says of the recipe."""
        return self.model_dump(mode="json")
