# SPDX-License-Identifier: BSD-3-Clause
"""The results of episodes: success, the time it took, and the sums of the reward's terms."""

import torch


class EpisodeTracker:
    """Follows the running episode of each environment and keeps the results of the last finished one."""

    def __init__(self, num_envs: int, step_dt: float, device: str) -> None:
        """Start with no finished episode in ``num_envs`` environments, N, of steps of ``step_dt`` [s]."""
        self._step_dt = step_dt
        unknown = torch.full((num_envs,), float("nan"), device=device)
        self.fulfilled = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """Whether the task is fulfilled in this step, shape (N,)."""
        self.success = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """Whether it was at the end of the last episode, shape (N,); written in place."""
        self.time_to_success = unknown.clone()
        """Time until it first was in that episode [s], NaN if never, shape (N,); written in place."""

        self._never = unknown
        # Whole numbers are exact in float32 up to 16 million steps.
        self._steps = torch.zeros(num_envs, device=device)
        self._success_step = unknown.clone()
        self._names: tuple[str, ...] = ()
        self._sums = torch.zeros(0, num_envs, device=device)
        # Of the last finished episode: success, time to it, and the sum of each term.
        self._last = unknown.repeat(2, 1)
        # Means over them, computed once an episode has ended.
        self._means: torch.Tensor | None = None
        self._means_length_s = 0.0

    def record_step(self, fulfilled: torch.Tensor) -> None:
        """Count a step, and remember the first one in which the task is ``fulfilled``, shape (N,), bool.

        The environment's own counter does not do: learning libraries start it anywhere, so that episodes end at
        different times.
        """
        self.fulfilled = fulfilled
        self._steps += 1
        step = torch.where(self.fulfilled, self._steps, self._never)
        self._success_step = torch.fmin(self._success_step, step)

    def add_rewards(self, names: tuple[str, ...], terms: torch.Tensor) -> None:
        """Add the terms (T, N) of this step's reward by their names.

        Names that the step before did not have begin at 0, and without finished episodes.
        """
        if names != self._names:
            self._names = names
            self._sums = torch.zeros_like(terms)
            self._last = torch.cat([self._last[:2], torch.full_like(terms, float("nan"))])
            self._means = None
        self._sums += terms

    def mark_failed(self, mask: torch.Tensor) -> None:
        """Let the last episodes of environments, a mask of shape (N,), bool, count as failed."""
        self.fulfilled = self.fulfilled.masked_fill(mask, False)
        self.success.masked_fill_(mask, False)
        self.time_to_success.masked_fill_(mask, float("nan"))

    def finish(self, ids: torch.Tensor, benched: torch.Tensor) -> None:
        """Close the episodes of environments (M,), int64, that are reset; one of no step does not count.

        Nor does that of an environment that the guard has ``benched``, shape (N,), bool.
        """
        self.success[ids] = self.fulfilled[ids]
        self.time_to_success[ids] = self._success_step[ids] * self._step_dt

        # Means are taken over these, so they keep the result of the episode before where this one does not count.
        outcome = self.fulfilled[ids].float()
        seconds = self.time_to_success[ids].masked_fill(outcome == 0.0, float("nan"))
        results = torch.cat([outcome[None], seconds[None], self._sums[:, ids]])
        results = results.masked_fill(benched[ids], float("nan"))
        self._last[:, ids] = torch.where(self._steps[ids] > 0, results, self._last[:, ids])
        self._means = None

        # Not ``[ids] = number``, which copies the number to the device and waits for it.
        self.fulfilled.index_fill_(0, ids, False)
        self._steps.index_fill_(0, ids, 0)
        self._success_step.index_fill_(0, ids, float("nan"))
        self._sums.index_fill_(1, ids, 0.0)

    def take_results(self, other: "EpisodeTracker") -> None:
        """Forget what finished, and go on with the last finished episodes of another tracker, such as an older copy."""
        self._last = other._last.clone()
        self._means = None
        self._sums = torch.zeros_like(other._sums)
        self._names = other._names

    def metrics(self, max_length_s: float) -> dict[str, torch.Tensor]:
        """Return means over the last finished episodes of all environments, scalars.

        ``Metrics/success_rate``, ``Metrics/time_to_success`` [s] of those that succeeded, and
        ``Episode_Reward/<term>``, a rate over ``max_length_s`` [s], the longest episode; NaN where no episode has a
        result.
        """
        if self._means is None or max_length_s != self._means_length_s:
            self._means = self._last.nanmean(dim=1)
            self._means[2:] /= max_length_s
            self._means_length_s = max_length_s
        names = ("Metrics/success_rate", "Metrics/time_to_success", *(f"Episode_Reward/{n}" for n in self._names))
        return dict(zip(names, self._means, strict=True))
