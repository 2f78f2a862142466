"""The loop of a training: steps, scores, and its end."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from polyseme.engine.arrays import Floats


class Length(Protocol):
    """The fields of a recipe that determine the length of a training."""

    @property
    def steps(self) -> int | None: ...  # noqa: D102 - described by the recipes
    @property
    def minutes(self) -> float | None: ...  # noqa: D102 - as above
    @property
    def score_every(self) -> int: ...  # noqa: D102 - as above


@dataclass
class TrainerState:
    """The state of a trainer, without its tensors."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None


class TrainingLoop(ABC):
    """Repeats a step until all steps are done or the time has elapsed."""

    def __init__(self, length: Length) -> None:
        self._length, self.state = length, TrainerState()

    def steps(self) -> Iterator[dict[str, Any]]:
        """Train; yield the metrics of each step, with scores every `score_every` steps.

        The initial state, as step 0, and the last step are scored too.
        """
        before, began = self.state.seconds, time.monotonic()
        if not self.state.history:
            yield self._scored({"step": 0})
        while not self.ended():
            loss = self._step()
            self.state.step += 1
            self.state.seconds = before + time.monotonic() - began
            metrics: dict[str, Any] = {"step": self.state.step, "loss": round(loss, 4)}
            if self.state.step % self._length.score_every == 0 or self.ended():
                metrics = self._scored(metrics)
            yield metrics

    def part_done(self) -> float:
        """Return the completed share of the training, from 0 to 1."""
        length, parts = self._length, [0.0]
        if length.steps is not None:
            parts.append(self.state.step / length.steps if length.steps else 1.0)
        if length.minutes is not None:
            parts.append(self.state.seconds / (60 * length.minutes))
        return min(1.0, max(parts))

    def ended(self) -> bool:
        """Return whether all steps are done or the time has elapsed."""
        return self.part_done() >= 1

    @abstractmethod
    def state_tensors(self) -> dict[str, Floats]:
        """Return the tensors of a checkpoint; raise CommandError if the engine disagrees."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Floats], state: TrainerState) -> None:
        """Continue from a checkpoint; raise CommandError if its shapes differ."""

    @abstractmethod
    def _step(self) -> float:
        """Change the weights once; return the loss."""

    @abstractmethod
    def _scored(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Add scores to the metrics of a step, and the result to the history."""
