# SPDX-License-Identifier: BSD-3-Clause
"""Deterministic evaluation in which every environment counts the same number of episodes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from isaaclab_pc.learners.common.checkpoint_file import rng_state, set_rng_state
from isaaclab_pc.learners.common.interface import training_set_aside
from isaaclab_pc.run.evaluation import Breakdown, Evaluation, Success, Third
from isaaclab_pc.viewer.film_recorder import FilmRecorder


def evaluate(
    env: Any,
    act: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    episodes: int,
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
    recorder: FilmRecorder | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> Evaluation | None:
    """Run a policy until every environment has ended the same number of episodes.

    So short episodes, such as failures, weigh no more than long ones. An environment that has its episodes keeps
    running, uncounted, until the others have theirs.

    Args:
        env: A vectorized Isaac Lab environment; all of it is reset.
        act: Deterministic policy, from the observations to actions (N, A).
        episodes: Episodes at least; rounded up to a multiple of the number of environments.
        seed: Seed of the resets.
        stopped: Asked at every step whether to give up.
        recorder: Keeps the observations of some of the episodes.
        on_step: Called after every step, with the number of steps so far and that of steps at most.

    Returns:
        The result, or None if it was stopped.
    """
    base = env.unwrapped
    episodes_per_env = math.ceil(episodes / base.num_envs)
    ended = _EndedEpisodes(base, episodes_per_env)

    # Not inference mode: a training that goes on could not write to tensors that the environment allocates in it.
    with torch.no_grad():
        observations, _ = env.reset(seed=seed)
        step = 0
        while not ended.is_complete():
            if stopped():
                return None
            # Before the step: it resets the environments that are done, and draws the values of their next episodes.
            factors = _factors(base)
            if recorder is not None:
                recorder.before_step(observations)
            observations, reward, terminated, truncated, _ = env.step(act(observations))
            counted = ended.add_step(reward, terminated | truncated, factors)
            if recorder is not None:
                recorder.after_step(terminated | truncated, counted)
            step += 1
            if on_step is not None:
                on_step(step, episodes_per_env * base.max_episode_length)
    return ended.summary(seed)


def evaluate_in_between(
    env: Any,
    act: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    episodes: int,
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Run :func:`evaluate` between two iterations of a training, which goes on as if there had been none.

    Only its running episodes are lost: all environments start new ones at the end, so a library has to read the
    observations anew.
    """
    base = env.unwrapped
    # A seeded reset seeds the generators of the whole process, from which exploration draws too.
    generators = rng_state(str(base.device))
    steps = base.common_step_counter

    with training_set_aside(env):
        result = evaluate(env, act, episodes, seed, stopped)
        # Before the reset at the end: tasks of other packages draw it from these generators.
        set_rng_state(generators, str(base.device))

    base.common_step_counter = steps
    return result


def _factors(base: Any) -> dict[str, torch.Tensor]:
    """Return a copy of the values drawn for the running episodes, each (N,); empty for tasks of other packages."""
    factors = getattr(base, "randomized_factors", dict)()
    return {name: value.clone() for name, value in factors.items()}


class _EndedEpisodes:
    """The results of the episodes that are counted."""

    def __init__(self, base: Any, episodes_per_env: int) -> None:
        self._base = base
        self._episodes_per_env = episodes_per_env
        self._finished = torch.zeros(base.num_envs, dtype=torch.long, device=base.device)
        self._running_return = torch.zeros(base.num_envs, device=base.device)

        # One tensor for each step in which an episode ended, with an element for each of these episodes.
        self._returns: list[torch.Tensor] = []
        self._successes: list[torch.Tensor] = []
        self._times: list[torch.Tensor] = []
        self._factors: dict[str, list[torch.Tensor]] = {}

    def is_complete(self) -> bool:
        """Tell whether every environment has its episodes."""
        return bool((self._finished >= self._episodes_per_env).all())

    def add_step(self, reward: torch.Tensor, done: torch.Tensor, factors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Count the episodes that ended in this step; return the environments of these, shape (N,), bool."""
        self._running_return += reward
        counted = done & (self._finished < self._episodes_per_env)
        ids = counted.nonzero().squeeze(-1)
        if len(ids) > 0:
            self._returns.append(self._running_return[ids])
            if hasattr(self._base, "episode_success"):
                self._successes.append(self._base.episode_success[ids])
                self._times.append(self._base.episode_time_to_success[ids])
                for name, value in factors.items():
                    self._factors.setdefault(name, []).append(value[ids])

        self._finished += counted
        self._running_return.masked_fill_(done, 0.0)
        return counted

    def summary(self, seed: int) -> Evaluation:
        """Return the result over all counted episodes."""
        mean_return = float(torch.cat(self._returns).mean())
        result = Evaluation(
            episodes=sum(map(len, self._returns)),
            seed=seed,
            success=None,
            success_once=None,
            mean_return=mean_return if math.isfinite(mean_return) else None,
            mean_time_to_success_s=None,
        )
        if not self._successes:
            return result

        succeeded = torch.cat(self._successes)
        times = torch.cat(self._times)
        parts = (_breakdown(name, torch.cat(values), succeeded) for name, values in self._factors.items())
        return replace(
            result,
            success=_share(succeeded),
            success_once=_share(succeeded | times.isfinite()),
            mean_time_to_success_s=float(times[succeeded].mean()) if succeeded.any() else None,
            breakdown=tuple(part for part in parts if part is not None),
        )


def _share(succeeded: torch.Tensor) -> Success:
    """Return the share of episodes, shape (E,), bool, that succeeded, with its interval."""
    # Late: it takes a second to load, and every start of a training would wait for it.
    from scipy.stats import binomtest

    test = binomtest(int(succeeded.sum()), len(succeeded))
    interval = test.proportion_ci(confidence_level=0.95, method="wilson")
    return Success(rate=float(test.statistic), lower=float(interval.low), upper=float(interval.high))


def _breakdown(name: str, values: torch.Tensor, succeeded: torch.Tensor) -> Breakdown | None:
    """Split episodes by the values of a factor, shape (E,), bool success; None where all values are the same."""
    lowest = float(values.min())
    width = (float(values.max()) - lowest) / 3.0
    if not width > 0.0:
        return None

    third = ((values - lowest) / width).long().clamp(max=2)
    thirds = []
    for index in range(3):
        inside = succeeded[third == index]
        success = _share(inside) if len(inside) > 0 else None
        lower = lowest + index * width
        thirds.append(Third(lower=lower, upper=lower + width, episodes=len(inside), success=success))
    return Breakdown(factor=name, thirds=(thirds[0], thirds[1], thirds[2]))
