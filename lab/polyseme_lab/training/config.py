"""The configuration of training: every hyperparameter that the result depends on."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from polyseme.engine.layers import Activation

Objective: TypeAlias = Literal["contrastive", "hidden-words"]
Keep: TypeAlias = Literal["last", "best"]
Share = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]

MAX_OCCURRENCES = 16_384
"""Maximum number of occurrences in a step. Their similarity matrix takes 1 GiB."""
MAX_HELD_OUT = 5000
"""Maximum number of sentences or paragraphs that are held out, on which models are compared."""
COARSEWSD = (
    *("apple", "arm", "bank", "bass", "bow", "chair", "club", "crane", "deck", "digit"),
    *("hood", "java", "mole", "pitcher", "pound", "seal", "spring", "square", "trunk", "yard"),
)
"""The words of CoarseWSD-20. They are excluded from training because they are for evaluation."""


class Recipe(BaseModel):
    """The fields of both configurations. The help of `polyseme train` has their docstrings."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    may_change: ClassVar[frozenset[str]] = frozenset()
    """fields that may be different when a training is resumed"""

    seed: int = Field(1, ge=0, lt=1 << 32)
    """Seed of the random number generators."""
    steps: int | None = Field(None, ge=0, le=100_000_000)
    minutes: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False)
    threads: int = Field(1, ge=1, le=256)
    """Number of threads, which affects the last bits of results."""
    leave_out: tuple[Annotated[str, AfterValidator(str.casefold)], ...] = COARSEWSD
    """words that are never targets, ignoring case"""
    split: int = Field(1, ge=0, lt=1 << 32)
    """seed that selects the held-out data"""

    def differences(self, other: "Recipe") -> list[str]:
        """Return the fields that differ, or that only one has, and may not change."""
        mine, others = self.model_dump(), other.model_dump()
        return [
            name
            for name in {**mine, **others}
            if mine.get(name) != others.get(name) and name not in self.may_change
        ]


class TrainingConfig(Recipe):
    """The hyperparameters of the objective `contrastive`.

    Without `minutes`, the same configuration and data give bit-identical weights on one machine.
    `--recipe` reads fields from a JSON file; the manifest of the trained model contains all.
    """

    objective: Literal["contrastive"] = "contrastive"

    # The learning rate.
    learning_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    """Learning rate."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Schedule of the learning rate."""

    # The batch of a step.
    groups: int = Field(24, ge=1, le=4096)
    """Number of lemmas or pseudo-words in a step."""
    occurrences: int = Field(16, ge=2, le=1024)
    """Maximum number of occurrences per lemma in a step."""
    pseudo_words: int = Field(3, ge=2, le=4096)
    """Number of words in a pseudo-word."""
    word_occurrences: int | None = Field(None, ge=2, le=1024)
    """Maximum number of occurrences per word of a pseudo-word."""
    commonest_words: int | None = Field(None, ge=2, le=100_000_000)
    """Number of most frequent corpus words in pseudo-words; by default all."""
    mix: Share = 0.5
    """Share of the groups from --corpus if there are --tags too."""
    corpus_words: int = Field(4_000_000, ge=1, le=1_000_000_000)
    """Number of words sampled from --corpus."""
    window: int = Field(30, ge=1, le=10_000)
    """Maximum number of context words on each side."""
    cut: Share = 0.3
    """Share of the contexts that are truncated."""
    key_dropout: float = Field(0.15, ge=0, lt=1)
    """Probability that a context word is masked."""
    hide: Share = 0.0
    """Share of the tagged words that are masked."""
    lower: Share = 0.0
    """Share of the contexts that are lower-cased."""

    # The loss.
    temperature: float = Field(0.4, gt=0, le=100, allow_inf_nan=False)
    """Initial value of the learned temperatures of the loss."""
    anchor: Strength = 2e-4
    """Factor of the L2 penalty towards the initial weights."""
    tune_embeddings: bool = False
    """Train the static vectors too."""
    embedding_anchor: Strength = 0.1
    """factor of the L2 penalty on the difference of static vectors from their initial values"""
    embedding_rate: float = Field(1e-3, gt=0, le=1, allow_inf_nan=False)
    """learning rate of the static vectors"""

    # The result.
    interpolate: Share = 0.6
    """t in the resulting weights initial·(1 − t) + trained·t."""
    keep: Keep = "last"
    """Weights to keep."""
    held_out: float = Field(0.1, ge=0, le=0.5)
    """Share of the lemmas, or of the words of a corpus, that are held out."""
    fewest: int = Field(8, ge=2, le=1000)
    """minimum number of occurrences of a held-out sense; rarer senses are not scored"""
    score_every: int = Field(100, ge=1, le=1_000_000)
    """Number of steps between two scores and checkpoints."""

    @property
    def of_each_word(self) -> int:
        """The maximum number of occurrences of each word of a pseudo-word in a step."""
        return self.word_occurrences or max(2, self.occurrences // self.pseudo_words)

    @model_validator(mode="after")
    def _small_enough(self) -> Self:
        largest = max(self.occurrences, self.pseudo_words * self.of_each_word)
        if self.groups * largest > MAX_OCCURRENCES:
            raise ValueError(
                f"groups · occurrences and groups · pseudo_words · word_occurrences must not exceed"
                f" {MAX_OCCURRENCES}"
            )
        return self


class HiddenWordsConfig(Recipe):
    """The hyperparameters of the objective `hidden-words`."""

    may_change = frozenset(
        {"steps", "minutes", "learning_rate", "decay", "average", "threads", "score_every"}
    )

    objective: Literal["hidden-words"] = "hidden-words"

    # The layers.
    layers: int = Field(3, ge=1, le=64)
    """Number of layers of hidden-words."""
    heads: int = Field(6, ge=1, le=1024)
    """Number of attention heads of hidden-words."""
    key_width: int | None = Field(None, ge=1, le=4096)
    """Width of the queries and keys of a head of hidden-words."""
    value_width: int | None = Field(None, ge=1, le=4096)
    """Width of the values of a head of hidden-words."""
    feed_forward: int = Field(600, ge=1, le=65_536)
    """Inner width of the feed-forward networks of hidden-words."""
    activation: Activation = "gelu"

    # The learning rate.
    learning_rate: float = Field(1.2e-3, gt=0, le=1, allow_inf_nan=False)
    warmup: int = Field(200, ge=0, le=1_000_000)
    """number of steps in which the learning rate rises from 0"""
    decay: Share = 0.3
    """Share of hidden-words at whose end the learning rate falls to 0."""
    weight_decay: float = Field(0.01, ge=0, le=1)
    """factor of the weights' decay (Loshchilov & Hutter 2019)"""
    average: float = Field(0.998, ge=0, lt=1)
    """factor of the moving average of the weights over the steps, which is the result"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """type of matrix products; `auto` is bfloat16 if the processor has instructions for it"""

    # The batch of a step.
    sentences: int = Field(64, ge=1, le=65_536)
    """Mean number of sentences in a step of hidden-words."""
    hidden: float = Field(0.25, gt=0, lt=1)
    """Share of the words of a sentence that hidden-words hides."""
    negatives: int = Field(3000, ge=1, le=1_000_000)
    """Number of words that hidden-words distinguishes hidden words from."""

    # The result.
    held_out_sentences: int = Field(MAX_HELD_OUT, ge=0, le=1_000_000)
    """number of sentences that are held out of training, at most a tenth of them"""
    score_every: int = Field(500, ge=1, le=1_000_000)
    """number of steps between two scores"""
