# SPDX-License-Identifier: BSD-3-Clause
"""The results of episodes: success, the time it took, and the sums of the reward's terms."""

from __future__ import annotations

import torch

__all__ = ["EpisodeTracker"]


class EpisodeTracker:
    """Follows the running episode of each environment and keeps the results of the last finished one."""

    def __init__(self, num_envs: int, step_dt: float, device: str) -> None:
        """Start with no finished episode.

        Args:
            num_envs: Number of environments, N.
            step_dt: Duration of an environment step [s].
            device: Torch device.
        """
        self._step_dt = step_dt
        unknown = torch.full((num_envs,), float("nan"), device=device)
        self.fulfilled = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """Whether the task is fulfilled in this step, shape (N,); the environment sets it."""
        self.success = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """Whether it was at the end of the last episode, shape (N,); written in place."""
        self.time_to_success = unknown.clone()
        """Time until it first was in that episode [s], NaN if never, shape (N,); written in place."""

        self._steps = torch.zeros(num_envs, dtype=torch.long, device=device)
        self._success_step = unknown.clone()
        self._last_success = unknown.clone()
        self._last_time = unknown.clone()
        self._sums: dict[str, torch.Tensor] = {}
        self._last_sums: dict[str, torch.Tensor] = {}

    def exclude(self, mask: torch.Tensor) -> None:
        """Let the task count as not fulfilled in this step where ``mask``, shape (N,), bool, is true."""
        self.fulfilled = self.fulfilled & ~mask

    def record_step(self) -> None:
        """Count a step of all environments, and remember the first one in which :attr:`fulfilled` is true.

        The environment's own counter does not do: learning libraries start it anywhere, so that episodes end at
        different times.
        """
        self._steps += 1
        first = self.fulfilled & self._success_step.isnan()
        self._success_step = torch.where(first, self._steps.float(), self._success_step)

    def add_rewards(self, terms: dict[str, torch.Tensor]) -> None:
        """Add the terms of this step's reward, each (N,)."""
        for name, value in terms.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value.clone()

    def mark_failed(self, mask: torch.Tensor) -> None:
        """Let the last episodes of environments, a mask of shape (N,), bool, count as failed."""
        self.fulfilled &= ~mask
        self.success &= ~mask
        self.time_to_success.masked_fill_(mask, float("nan"))

    def finish(self, ids: torch.Tensor, benched: torch.Tensor) -> None:
        """Close the episodes of environments that are reset; one of no step does not count.

        Args:
            ids: The environments, shape (M,), int64.
            benched: Environments that the guard has benched, shape (N,), bool: their episodes do not count.
        """
        self.success[ids] = self.fulfilled[ids]
        self.time_to_success[ids] = self._success_step[ids] * self._step_dt

        # Means are taken over these, so they keep the result of the episode before where this one does not count.
        ran = self._steps[ids] > 0
        outcome = self.fulfilled[ids].float().masked_fill(benched[ids], float("nan"))
        self._last_success[ids] = torch.where(ran, outcome, self._last_success[ids])
        seconds = torch.where(outcome > 0.0, self.time_to_success[ids], float("nan"))
        self._last_time[ids] = torch.where(ran, seconds, self._last_time[ids])

        # Not ``[ids] = number``, which copies the number to the device and waits for it.
        self.fulfilled.index_fill_(0, ids, False)
        self._steps.index_fill_(0, ids, 0)
        self._success_step.index_fill_(0, ids, float("nan"))
        for name, value in self._sums.items():
            last = self._last_sums.setdefault(name, torch.full_like(value, float("nan")))
            total = value[ids].masked_fill(benched[ids], float("nan"))
            last[ids] = torch.where(ran, total, last[ids])
            value.index_fill_(0, ids, 0.0)

    def take_results(self, other: EpisodeTracker) -> None:
        """Forget what finished, and go on with the last finished episodes of another tracker, such as an older copy."""
        self._last_success.copy_(other._last_success)
        self._last_time.copy_(other._last_time)
        self._last_sums = {name: value.clone() for name, value in other._last_sums.items()}

    def metrics(self, max_length_s: float) -> dict[str, torch.Tensor]:
        """Return means over the last finished episodes of all environments, scalars.

        Args:
            max_length_s: Longest duration of an episode [s]: the terms are rates.

        Returns:
            ``Metrics/success_rate``, ``Metrics/time_to_success`` [s] of those that succeeded, and
            ``Episode_Reward/<term>``; NaN where no episode has a result.
        """
        metrics = {
            "Metrics/success_rate": self._last_success.nanmean(),
            "Metrics/time_to_success": self._last_time.nanmean(),
        }
        for name, value in self._last_sums.items():
            metrics[f"Episode_Reward/{name}"] = value.nanmean() / max_length_s
        return metrics
