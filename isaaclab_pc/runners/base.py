# SPDX-License-Identifier: BSD-3-Clause
"""What the workflows ask of a learning library, and what its adapters share."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Decision", "EpisodeLog", "OnIteration", "Runner", "StopTraining", "facts", "quiet", "success_rate"]


class Decision(Enum):
    """What to do after an iteration."""

    CONTINUE = "continue"
    STOP = "stop"


OnIteration = Callable[[int, Mapping[str, float]], Decision]
"""Called after every iteration with the number of completed iterations and the metrics.

Training is between two iterations then: the callback may call ``Runner.save``.
"""


class Runner(Protocol):
    """One learning library, with its networks, optimizer and loop."""

    completed_iterations: int
    """Iterations since the start of the run, those before a resume included."""

    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train until the run has ``max_iterations`` iterations or the callback says stop.

        Metrics are ``mean_reward`` (return of the last 100 episodes, NaN before the first one ends),
        ``mean_episode_length``, ``success_rate`` (NaN when the environment logged none), ``collect_s`` and ``learn_s``
        [s], ``env_steps_per_s`` [1/s], ``learning_rate``, ``action_std``, ``loss/*``, ``Learner/updates`` and
        ``Learner/skipped_updates`` (see :class:`~isaaclab_pc.runners.tripwire.Tripwire`), and whatever the environment
        logged, under its own names.

        Args:
            max_iterations: Iterations of the whole run, those before a resume included.
            on_iteration: Called after each iteration.
        """
        ...

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically.

        Args:
            path: Where to.
            extra: What to tell about the run, such as the task's id; JSON values.

        Raises:
            NonFiniteError: Weights, optimizer or normalizers are not finite; nothing was written.
        """
        ...

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Take over weights, optimizer, normalizers, learning rate, random generators and counters.

        Args:
            path: A checkpoint that :meth:`save` wrote.
            expected: What the checkpoint's extra must be, besides runner, observations and actions.

        Returns:
            The checkpoint's header with the ``extra`` it was saved with.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed.
        """
        ...

    def act(self, obs: "Mapping[str, Tensor]") -> "Tensor":
        """Compute the deterministic policy's actions.

        Args:
            obs: Observation groups by name, batch (N,).

        Returns:
            Actions, shape (N, A).
        """
        ...

    def holders(self) -> Mapping[str, Any]:
        """Return the objects that hold the library's tensors, by kind of memory.

        The kinds are ``rollout storage``, ``network weights`` and ``optimizer``. What an object holds is what
        :func:`isaaclab_pc.tensor_bytes.tensor_bytes` finds in it.
        """
        ...


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


class EpisodeLog:
    """Collects what the environment logs during one iteration."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[dict[str, Any]] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep what one step logged; the environment may reuse the dict, so it is copied."""
        self._entries.append(dict(entry))

    def flush(self) -> dict[str, float]:
        """Return the mean of each value over the steps that logged a finite one, and start anew."""
        entries, self._entries = self._entries, []
        keys = dict.fromkeys(key for entry in entries for key in entry)
        return {key: _finite_mean([entry[key] for entry in entries if key in entry]) for key in keys}


def success_rate(env_log: Mapping[str, float]) -> float:
    """Pick the success rate out of what the environment logged, NaN where there is none."""
    return env_log.get("Metrics/success_rate", math.nan)


def facts(runner: str, shapes: Mapping[str, Sequence[int]], num_actions: int) -> dict[str, Any]:
    """Describe what a policy was made for: the part of a checkpoint's header that must match on load.

    Args:
        runner: Name of the adapter.
        shapes: Shape of one observation of each group that the networks read.
        num_actions: Size of an action.

    Returns:
        JSON values.
    """
    observations = {name: list(shape) for name, shape in sorted(shapes.items())}
    return {"runner": runner, "observations": observations, "num_actions": num_actions}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what a library prints: the workflows show progress themselves."""
    with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        yield


def _finite_mean(values: Sequence[Any]) -> float:
    """Average numbers and tensors, leaving out what is not finite: a step in which no episode ended has no rate."""
    numbers = [float(value.float().mean()) if hasattr(value, "mean") else float(value) for value in values]
    finite = [number for number in numbers if math.isfinite(number)]
    return sum(finite) / len(finite) if finite else math.nan
