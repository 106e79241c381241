# SPDX-License-Identifier: BSD-3-Clause
"""Trials of a search: one child process at a time, inside the budgets and the time of the search."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from isaaclab_pc.num_envs.gpu import Gpu
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS, Outcome, Overrides, Trial
from isaaclab_pc.num_envs.trial_runner import Budgets, run_trial

ChildCommand = Callable[[int, Path, Overrides], list[str]]
"""Gives the arguments of a child that tries a size: ``command(num_envs, result_path, overrides)``. The child builds the
real environment and agent with the overrides, trains a little, and writes a `Trial` to the path before it closes."""
RetryPolicy = Callable[[Trial, Overrides], Overrides | None]
"""Tells with which overrides a size should be tried once more, given its last trial and the overrides of that; None: no
other setting would help."""

_MAX_ATTEMPTS = 4
"""Most trials of one size, each with other overrides."""


class SearchClock:
    """The time of a search. It begins when the first environment is built: kernels may be compiled before."""

    def __init__(self, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the time for the first build; then the search has ``max_seconds`` [s]."""
        self._max_seconds = max_seconds
        self._clock = clock
        self._began = clock()
        self._built_at: float | None = None

    @property
    def is_built(self) -> bool:
        """Whether an environment was ever built."""
        return self._built_at is not None

    def built(self) -> None:
        """Begin the time of the search, where it has not begun yet."""
        if self._built_at is None:
            self._built_at = self._clock()

    def build_left(self) -> float | None:
        """Return the time left for the first build [s]; None where it is done."""
        return None if self.is_built else max(self._began + FIRST_BUILD_SECONDS - self._clock(), 0.0)

    def spent(self) -> float:
        """Return the time that the search has taken [s]: none before the first build, all where that took too long."""
        if self._built_at is not None:
            return self._clock() - self._built_at
        return 0.0 if self.build_left() else self._max_seconds

    def left(self) -> float:
        """Return the time left for the search [s]."""
        return max(self._max_seconds - self.spent(), 0.0)


@dataclass(kw_only=True)
class SizeTrials:
    """Tries sizes, each again with other settings where those may help."""

    command: ChildCommand
    retry: RetryPolicy
    budgets: Budgets
    """Memory that a child may use."""
    read_budgets: Callable[[], Budgets]
    """Reads the budgets of now, while no child runs."""
    gpu: Gpu | None
    """The GPU that children use; None on the CPU."""
    folder: Path
    """Where children leave their trials and their output."""
    on_trial: Callable[[Trial], None]
    """Called after each trial."""
    clock: SearchClock
    overrides: Overrides
    """Settings that children get in place of the user's."""
    may_compile_kernels: bool
    """Whether the next child may be the first one on this machine."""

    def run(self, num_envs: int) -> Trial:
        """Try a size, again with other settings where those may help; return its last trial."""
        trial = self._run_once(num_envs)
        fitting = None
        # A child that ran out of memory may have compiled some, too, and could not tell.
        if trial.compiled or (self.may_compile_kernels and trial.outcome in (Outcome.OVER_BUDGET, Outcome.OOM)):
            # Compiling kernels takes memory that no later process needs: they are kept on disk.
            fitting = trial if trial.fits else None
            trial = self._run_once(num_envs)
        self.may_compile_kernels = self.may_compile_kernels and trial.outcome is Outcome.TOO_MANY
        if trial.taken_by_others:
            # No setting of the run is to blame: it is held to the memory that other programs leave.
            now, before = self.read_budgets(), self.budgets
            device = None if now.device is None or before.device is None else min(before.device, now.device)
            self.budgets = Budgets(min(before.host, now.host), device)
            trial = self._run_once(num_envs)

        for _ in range(_MAX_ATTEMPTS - 1):
            overrides = None if trial.taken_by_others else self.retry(trial, self.overrides)
            if overrides is None or self.clock.left() == 0.0:
                break
            fitting = trial if trial.fits else fitting
            self.overrides = overrides
            trial = self._run_once(num_envs)
        if trial.outcome is Outcome.TIMEOUT and fitting is not None:
            # It only had no time to run again.
            self.overrides = fitting.overrides
            return fitting
        return trial

    def _run_once(self, num_envs: int) -> Trial:
        result_path = self.folder / f"{num_envs}.json"
        log_path = self.folder / f"{num_envs}.log"
        argv = self.command(num_envs, result_path, self.overrides)
        budgets = replace(self.budgets, seconds=self.clock.left(), build_seconds=self.clock.build_left())

        trial = run_trial(argv, num_envs, result_path, log_path, budgets, self.gpu, self.clock.built)
        if trial.fits:
            # Also where it was too quick to be seen training.
            self.clock.built()
        trial = replace(trial, overrides=dict(self.overrides))
        self.on_trial(trial)
        return trial
