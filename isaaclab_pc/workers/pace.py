# SPDX-License-Identifier: BSD-3-Clause
"""How fast a training goes: the time that is left, and how the time of an iteration is split."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook

__all__ = ["Pace", "StepTimer"]


class Pace:
    """Estimates the time left from the mean duration of an iteration.

    The first iteration also compiles kernels and allocates, so it counts only until there is a second one.
    """

    def __init__(self, completed: int, maximum: int) -> None:
        """Start the clock.

        Args:
            completed: Iterations that a resumed run brings along.
            maximum: The run's last iteration.
        """
        self._maximum = maximum
        self._first = completed + 1
        self._start = time.monotonic()

    def seconds_left(self, completed: int) -> float:
        """Return the time until the last iteration [s]; called once after each iteration.

        Args:
            completed: Iterations completed so far, 1 after the first.
        """
        now = time.monotonic()
        elapsed = now - self._start
        if completed == self._first:
            self._start = now

        timed = max(completed - self._first, 1)
        return elapsed / timed * (self._maximum - completed)


class StepTimer(StepHook):
    """Sums up the time that is spent in an environment's steps.

    Nothing waits for a GPU here: work that the policy has queued there counts as the environment's, which waits for it.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._seconds = 0.0
        self._began = 0.0
        self._remove: Callable[[], None] = lambda: None

    @classmethod
    def attach(cls, env: Any) -> StepTimer:
        """Return a timer of an environment's steps.

        Args:
            env: The gym environment.
        """
        timer = cls()
        timer._remove = add_step_hook(env.unwrapped, timer)
        return timer

    def detach(self) -> None:
        """Leave the environment."""
        self._remove()

    def before_step(self, action: torch.Tensor) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def after_step(self) -> None:
        """Stop the clock."""
        self._seconds += time.perf_counter() - self._began

    def clear(self) -> None:
        """Forget the steps so far, those of an evaluation."""
        self._seconds = 0.0

    def rates(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the rates of an iteration, and begin the next one.

        Args:
            metrics: The iteration's.

        Returns:
            Steps of all environments per second [1/s]: of the ``environment`` alone, of the policy's ``inference``
            alone, of ``learning`` alone, and ``total``; without those that took no time.
        """
        in_env = self._seconds
        self._seconds = 0.0
        collect_s, learn_s = metrics["collect_s"], metrics["learn_s"]
        steps = metrics["env_steps_per_s"] * (collect_s + learn_s)
        spent = {"environment": in_env, "inference": collect_s - in_env, "learning": learn_s}
        rates = {name: steps / seconds for name, seconds in spent.items() if seconds > 0.0}
        return {**rates, "total": metrics["env_steps_per_s"]}
