"""The configuration of training: every hyperparameter that the result depends on."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from polyseme.engine.layers import NormPlace

Init: TypeAlias = Literal["model", "closed-form", "random"]
Objective: TypeAlias = Literal["contrastive", "hidden-words"]
Keep: TypeAlias = Literal["last", "best"]
Share = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]

MAX_OCCURRENCES = 16_384
"""Maximum number of occurrences in a step. Their similarity matrix takes 1 GiB."""
MAY_CHANGE = frozenset(
    {"steps", "minutes", "learning_rate", "decay", "average", "threads", "score_every"}
)
"""The fields of HiddenWordsConfig that may be different when a training is resumed."""
COARSEWSD = (
    *("apple", "arm", "bank", "bass", "bow", "chair", "club", "crane", "deck", "digit"),
    *("hood", "java", "mole", "pitcher", "pound", "seal", "spring", "square", "trunk", "yard"),
)
"""The words of CoarseWSD-20. They are excluded from training because they are for evaluation."""


class TrainingConfig(BaseModel):
    """The hyperparameters of the objective `contrastive`.

    Without `minutes`, the same configuration and data give bit-identical weights on one machine.
    `--recipe` reads fields from a JSON file; the manifest of the trained model contains all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: Literal["contrastive"] = "contrastive"

    # Initial weights.
    init: Init = "model"
    heads: int | None = Field(None, ge=1, le=1024)
    key_width: int | None = Field(None, ge=1, le=4096)
    """width of the queries and keys of a head"""
    value_width: int | None = Field(None, ge=1, le=4096)
    """width of the values of a head"""
    layers: int | None = Field(None, ge=1, le=64)
    norm: NormPlace = "none"
    feed_forward: int | None = Field(None, ge=1, le=65_536)
    """inner width; None for no feed-forward network"""
    seed: int = Field(1, ge=0, lt=1 << 32)

    # Duration and learning rate.
    steps: int | None = Field(None, ge=0, le=100_000_000)
    minutes: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    learning_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    schedule: Literal["constant", "cosine"] = "cosine"
    threads: int = Field(1, ge=1, le=256)

    # The batch of a step.
    groups: int = Field(24, ge=1, le=4096)
    """lemmas or pseudo-words in a step"""
    occurrences: int = Field(16, ge=2, le=1024)
    """maximum number of occurrences of each lemma in a step"""
    pseudo_words: int = Field(3, ge=2, le=4096)
    """number of words in a pseudo-word; each word is a sense of the pseudo-word"""
    word_occurrences: int | None = Field(None, ge=2, le=1024)
    """maximum number of occurrences of each word of a pseudo-word in a step; None divides
    `occurrences` among the words, with at least 2 for each"""
    commonest_words: int | None = Field(None, ge=2, le=100_000_000)
    """number of the corpus's most frequent words to form pseudo-words from; None for all"""
    mix: Share = 0.5
    """share of pseudo-words among the groups if there are both tags and a corpus"""
    corpus_words: int = Field(4_000_000, ge=1, le=1_000_000_000)
    """number of words in the random sample of paragraphs that is read from the corpus"""
    window: int = Field(30, ge=1, le=10_000)
    """maximum number of context words on either side"""
    cut: Share = 0.3
    """share of contexts truncated to 2 to 8 words on either side"""
    key_dropout: float = Field(0.15, ge=0, lt=1)
    """probability that a context word is replaced by the unknown token"""
    hide: Share = 0.0
    """share of tagged words that are replaced by the unknown token"""
    lower: Share = 0.0
    """share of contexts converted to lower case"""
    leave_out: tuple[Annotated[str, AfterValidator(str.casefold)], ...] = COARSEWSD
    """words that are never targets, ignoring case"""

    # The loss.
    temperature: float = Field(0.4, gt=0, le=100, allow_inf_nan=False)
    """initial value of the two learned temperatures"""
    anchor: Strength = 2e-4
    """factor of the L2 penalty on the difference of each weight from its initial value"""
    tune_embeddings: bool = False
    """whether the static vectors are trained too"""
    embedding_anchor: Strength = 0.1
    """factor of the L2 penalty on the difference of static vectors from their initial values"""
    embedding_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    """learning rate of the static vectors"""

    # The result.
    interpolate: Share = 0.6
    """t of the resulting weights, initial·(1 − t) + trained·t"""
    keep: Keep = "last"
    held_out: float = Field(0.1, ge=0, le=0.5)
    """share of lemmas, or of words, that are held out of training"""
    split: int = Field(1, ge=0, lt=1 << 32)
    """seed that selects the held-out lemmas or words"""
    fewest: int = Field(8, ge=2, le=1000)
    """minimum number of occurrences of a held-out sense; rarer senses are not scored"""
    score_every: int = Field(100, ge=1, le=1_000_000)
    """number of steps between two scores"""

    @property
    def of_each_word(self) -> int:
        """The maximum number of occurrences of each word of a pseudo-word in a step."""
        return self.word_occurrences or max(2, self.occurrences // self.pseudo_words)

    @model_validator(mode="after")
    def _small_enough(self) -> "TrainingConfig":
        largest = max(self.occurrences, self.pseudo_words * self.of_each_word)
        if self.groups * largest > MAX_OCCURRENCES:
            raise ValueError(
                f"groups · occurrences and groups · pseudo_words · word_occurrences must not exceed"
                f" {MAX_OCCURRENCES}"
            )
        return self

    def differences(self, other: "TrainingConfig | HiddenWordsConfig") -> list[str]:
        """Return the names of the fields that differ."""
        return _differing(self, other)

    def document(self) -> dict[str, Any]:
        """Return the configuration as it is written to the manifest."""
        return self.model_dump(mode="json")


class HiddenWordsConfig(BaseModel):
    """The hyperparameters of the objective `hidden-words`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: Literal["hidden-words"] = "hidden-words"

    # The layers.
    layers: int = Field(3, ge=1, le=64)
    heads: int = Field(6, ge=1, le=1024)
    feed_forward: int = Field(600, ge=1, le=65_536)
    """inner width of the feed-forward networks"""
    seed: int = Field(1, ge=0, lt=1 << 32)

    # Duration and learning rate.
    steps: int | None = Field(None, ge=0, le=100_000_000)
    minutes: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    learning_rate: float = Field(1.2e-3, gt=0, le=1, allow_inf_nan=False)
    warmup: int = Field(200, ge=0, le=1_000_000)
    """number of steps in which the learning rate rises from 0"""
    decay: Share = 0.3
    """share of the training, at its end, in which the learning rate falls to 0"""
    weight_decay: float = Field(0.01, ge=0, le=1)
    """factor of the weights' decay (Loshchilov & Hutter 2019)"""
    average: float = Field(0.998, ge=0, lt=1)
    """factor of the moving average of the weights over the steps, which is the result"""
    threads: int = Field(1, ge=1, le=256)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """type of matrix products; `auto` is bfloat16 if the processor has instructions for it"""

    # The batch of a step.
    sentences: int = Field(64, ge=1, le=65_536)
    """mean number of sentences in a step"""
    hidden: float = Field(0.25, gt=0, lt=1)
    """share of the words of a sentence that are hidden"""
    negatives: int = Field(3000, ge=1, le=1_000_000)
    """number of random words in a step that the hidden words are distinguished from"""
    leave_out: tuple[Annotated[str, AfterValidator(str.casefold)], ...] = COARSEWSD
    """words that are never hidden, ignoring case"""

    # The result.
    held_out_sentences: int = Field(1000, ge=0, le=1_000_000)
    """number of sentences that are held out of training, at most a tenth of them"""
    split: int = Field(1, ge=0, lt=1 << 32)
    """seed that selects the held-out sentences"""
    score_every: int = Field(500, ge=1, le=1_000_000)
    """number of steps between two scores"""

    def differences(self, other: "TrainingConfig | HiddenWordsConfig") -> list[str]:
        """Return the names of the fields that differ and may not change when resuming."""
        return [name for name in _differing(self, other) if name not in MAY_CHANGE]

    def document(self) -> dict[str, Any]:
        """Return the configuration as it is written to the manifest."""
        return self.model_dump(mode="json")


def _differing(one: BaseModel, other: BaseModel) -> list[str]:
    """Return the names of the fields that differ or that only one of the configurations has."""
    mine, others = one.model_dump(), other.model_dump()
    return [name for name in {**mine, **others} if mine.get(name) != others.get(name)]
