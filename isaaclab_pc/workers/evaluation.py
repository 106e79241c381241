# SPDX-License-Identifier: BSD-3-Clause
"""Deterministic evaluation in which every environment counts the same number of episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from isaaclab_pc.json_record import JsonRecord

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation(JsonRecord):
    """The result of an evaluation."""

    episodes: int
    """Episodes counted, the same number in every environment."""

    success_rate: float | None
    """Share of successful episodes; None where the task does not say what success is."""

    mean_return: float
    """Mean undiscounted sum of rewards of an episode."""

    mean_time_to_success_s: float | None
    """Mean simulated time until a successful episode first succeeded [s]; None where none did."""

    def __str__(self) -> str:
        """One line for the terminal."""
        rate = "not defined by this task" if self.success_rate is None else f"{100 * self.success_rate:.1f} %"
        time = "-" if self.mean_time_to_success_s is None else f"{self.mean_time_to_success_s:.2f} s"
        return (
            f"success rate {rate} over {self.episodes} episodes, mean return {self.mean_return:.2f}, "
            f"mean time to success {time}"
        )


def evaluate(
    env: Any,
    act: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    episodes: int,
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Run a policy until every environment has ended the same number of episodes.

    So short episodes, such as failures, weigh no more than long ones. An environment that has its episodes keeps
    running until the others have theirs, and what it does meanwhile is not counted.

    Args:
        env: A vectorized Isaac Lab environment; all of it is reset.
        act: Deterministic policy, from the observations to actions (N, A).
        episodes: Episodes at least; rounded up to a multiple of the number of environments.
        seed: Seed of the resets.
        stopped: Asked at every step whether to give up.

    Returns:
        The result, or None if it was stopped.
    """
    base = env.unwrapped
    episodes_per_env = math.ceil(episodes / base.num_envs)
    totals = _EpisodeTotals(base.num_envs, base.device)

    # Training steps the environment in inference mode, too, and its buffers cannot be written outside of it then.
    with torch.inference_mode():
        observations, _ = env.reset(seed=seed)
        while bool((totals.finished < episodes_per_env).any()):
            if stopped():
                return None
            observations, reward, terminated, truncated, _ = env.step(act(observations))
            totals.add_step(base, reward, terminated | truncated, episodes_per_env)
    return totals.means()


class _EpisodeTotals:
    """Sums over counted episodes, on the environments' device."""

    def __init__(self, num_envs: int, device: str) -> None:
        self.finished = torch.zeros(num_envs, dtype=torch.long, device=device)
        """Counted episodes of each environment, shape (num_envs,), int64."""

        self._running_return = torch.zeros(num_envs, device=device)
        self._return = torch.zeros((), device=device)
        self._successes = torch.zeros((), device=device)
        self._time_to_success = torch.zeros((), device=device)
        self._knows_success = True

    def add_step(self, base: Any, reward: torch.Tensor, done: torch.Tensor, episodes_per_env: int) -> None:
        """Count the episodes that ended in this step, in environments that still have some to go."""
        self._running_return += reward
        counted = done & (self.finished < episodes_per_env)
        self._return += self._running_return[counted].sum()

        success = getattr(base, "episode_success", None)
        if success is None:
            self._knows_success = False
        else:
            succeeded = counted & success
            self._successes += succeeded.sum()
            self._time_to_success += base.episode_time_to_success[succeeded].sum()

        self.finished += counted
        self._running_return.masked_fill_(done, 0.0)

    def means(self) -> Evaluation:
        """Return the means over the counted episodes."""
        episodes = int(self.finished.sum())
        successes = float(self._successes)
        return Evaluation(
            episodes=episodes,
            success_rate=successes / episodes if self._knows_success else None,
            mean_return=float(self._return) / episodes,
            mean_time_to_success_s=float(self._time_to_success) / successes if successes else None,
        )
