# SPDX-License-Identifier: BSD-3-Clause
"""What the adapters of the learning libraries have in common."""

import contextlib
import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "USUAL_NUM_ENVS",
    "IterationLog",
    "StopTraining",
    "checkpoint_identity",
    "no_output",
    "resume_training",
    "success_rate",
    "tensor_cores",
    "training_state",
]

USUAL_NUM_ENVS = 4096
"""Number of environments that configurations of Isaac Lab's own tasks are written for."""


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


class IterationLog:
    """Averages what the environment logs during one iteration."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[dict[str, Any]] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep what one step logged.

        Args:
            entry: Numbers and tensors by name. It is copied, as the environment may use the same dict again.
        """
        self._entries.append(dict(entry))

    def take_means(self) -> dict[str, float]:
        """Return the mean of each value over the steps that logged a finite one, and start the next iteration.

        A value that was never finite is NaN. This waits for each device once.
        """
        logged = [item for entry in self._entries for item in entry.items()]
        self._entries = []

        numbers = _read_numbers([value for _, value in logged])
        by_key: dict[str, list[float]] = {key: [] for key, _ in logged}
        for (key, _), number in zip(logged, numbers, strict=True):
            # A step in which no episode ended logs NaN for its success rate.
            if math.isfinite(number):
                by_key[key].append(number)
        return {key: sum(finite) / len(finite) if finite else math.nan for key, finite in by_key.items()}


def _read_numbers(values: Sequence[Any]) -> list[float]:
    """Return numbers, and the means of tensors; the tensors of a device are read at once."""
    numbers = [math.nan if isinstance(value, Tensor) else float(value) for value in values]

    means: dict[torch.device, dict[int, Tensor]] = {}
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            # Most are numbers already.
            mean = value.float() if value.dim() == 0 else value.float().mean()
            means.setdefault(value.device, {})[index] = mean

    for of_device in means.values():
        for index, number in zip(of_device, torch.stack(list(of_device.values())).tolist(), strict=True):
            numbers[index] = number
    return numbers


def success_rate(env_log: Mapping[str, float]) -> float:
    """Return the success rate that the environment logged, NaN where there is none."""
    return env_log.get("Metrics/success_rate", math.nan)


def checkpoint_identity(runner: str, shapes: Mapping[str, Sequence[int]], num_actions: int) -> dict[str, Any]:
    """Return the part of a checkpoint's header that must be the same when it is loaded.

    Args:
        runner: Name of the adapter.
        shapes: Shape of one observation of each group that the networks read, without the batch dimension.
        num_actions: Size of an action.

    Returns:
        JSON values.
    """
    observations = {name: list(shape) for name, shape in sorted(shapes.items())}
    return {"runner": runner, "observations": observations, "num_actions": num_actions}


def without_num_points(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header in which clouds have no number of points: a policy reads clouds of any size.

    Args:
        header: A checkpoint's header, or what :func:`checkpoint_identity` returns. Observations with two dimensions
            are clouds.
    """
    observations = header.get("observations")
    if not isinstance(observations, Mapping):
        return dict(header)
    shapes = {name: ["points", shape[1]] if len(shape) == 2 else shape for name, shape in observations.items()}
    return {**header, "observations": shapes}


def training_state(env: Any) -> dict[str, Any]:
    """Return what an environment knows of the training so far: tensors and plain values for a checkpoint.

    Args:
        env: A vectorized Isaac Lab environment, or a library's wrapper around one.
    """
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "training_state"):
        return base.training_state()
    # Curricula of Isaac Lab's managers read this.
    return {"steps": int(getattr(base, "common_step_counter", 0))}


def resume_training(env: Any, state: Mapping[str, Any]) -> None:
    """Let all environments start the episodes that a training would have come to next.

    Tasks of other packages draw them from the random generators, which must have been restored before.

    Args:
        env: As for :func:`training_state`.
        state: What that returned.
    """
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "resume_training"):
        base.resume_training(state)
    elif hasattr(base, "common_step_counter"):
        base.common_step_counter = operator.index(state["steps"])
        base.reset()


@contextlib.contextmanager
def tensor_cores() -> Iterator[None]:
    """Let a GPU's matrix products be rounded to TF32, for its tensor cores: around a learner's networks only."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32 = before


@contextlib.contextmanager
def no_output() -> Iterator[None]:
    """Drop what a library prints: progress is shown by whoever asked for the training."""
    with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        yield
