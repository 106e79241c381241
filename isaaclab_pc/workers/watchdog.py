# SPDX-License-Identifier: BSD-3-Clause
"""Decides when a run stops early: it no longer learns, or physics fails in too many environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.envs import PointCloudEnvCfg
from isaaclab_pc.physics.ladder import harder, present_values
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.workers.resolve import Resolved

PATIENCE = 3
"""Iterations in a row in which an optimizer skipped every update, after which the learner counts as diverged."""

WINDOW_STEPS = 100
"""Steps of every environment over which failures are counted; one iteration where that is longer."""

MIN_FAULTS = 4
"""Fewer faults in a window never stop a run, however few environments there are."""


@dataclass(frozen=True)
class EarlyStop:
    """Why a run stops before its end, and the next step."""

    status: str
    """Its name in ``run.json``."""
    code: ExitCode
    message: str
    """For people."""
    physics: Mapping[str, float] | None = None
    """For a supervisor: fields of ``physics`` to go on with."""


class LearnerWatch:
    """Counts the iterations in a row in which an optimizer skipped every update."""

    def __init__(self, resolved: Resolved) -> None:
        """Start with none; the run's settings and library are for the advice."""
        self._resolved = resolved
        self._iterations_without_update = 0

    def check(self, metrics: Mapping[str, float]) -> EarlyStop | None:
        """Check an iteration; return why to stop, or None."""
        skipped = metrics.get("Learner/skipped_updates", 0.0)
        all_skipped = skipped > 0 and skipped == metrics.get("Learner/updates")
        # Where a critic has stopped, the steps of its policy lead nowhere.
        one_stopped = metrics.get("Learner/stopped_optimizers", 0.0) > 0
        self._iterations_without_update = self._iterations_without_update + 1 if all_skipped or one_stopped else 0
        if self._iterations_without_update < PATIENCE:
            return None

        where = "of" if all_skipped else "of one of its optimizers in"
        reason = f"all updates {where} {PATIENCE} iterations in a row were skipped"
        return diverged(self._resolved, reason)


def diverged(resolved: Resolved, reason: str) -> EarlyStop:
    """Return the stop of a learner that cannot go on."""
    if resolved.settings.guard.mode == "disabled":
        advice = "train with guard.mode=quarantine, which keeps the values of bad environments from the learner"
    else:
        advice = f"train with a smaller {resolved.adapter.learning_rate_key}"
    return EarlyStop(
        "failed",
        ExitCode.DIVERGED,
        f"the learner's loss, gradient or weights are not finite: {reason}. The last checkpoint holds the weights from "
        f"before. Next: {advice}.",
    )


class StormWatch:
    """Counts the environments that the guard found bad within a window."""

    def __init__(self, env: Any, resolved: Resolved, folder: Path) -> None:
        """Start a window; an environment without a guard has no storms."""
        guard = getattr(env.unwrapped, "guard", None)
        share = resolved.settings.guard.storm
        # A value that was replaced ended no episode.
        is_watched = share is not None and resolved.settings.guard.mode != "sanitize"
        self._guard = guard if is_watched and hasattr(guard, "env_counts") else None
        self._resolved = resolved
        self._share = share or 0.0
        self._folder = folder
        self.begin_window()

    def begin_window(self) -> None:
        """Count from here: after a window, and after an evaluation: its steps belong to no iteration."""
        self._steps = 0
        if self._guard is not None:
            self._before = self._guard.env_counts.clone()

    def check(self) -> EarlyStop | None:
        """Count after an iteration; at the end of a window, which waits for the device, return why to stop, or None."""
        self._steps += self._resolved.plan.horizon
        if self._guard is None or self._steps < WINDOW_STEPS:
            return None

        faults = self._guard.env_counts - self._before
        benched = self._guard.benched
        failed = int(((faults > 0) | benched).sum())
        is_enough = int(faults.sum()) >= MIN_FAULTS or bool(benched.any())

        steps = self._steps
        self.begin_window()

        if not is_enough or failed <= self._share * len(faults):
            return None
        return self._stop(
            f"{failed} of {len(faults)} environments failed within {steps} steps (guard.storm={self._share:g})"
        )

    def _stop(self, reason: str) -> EarlyStop:
        resolved = self._resolved
        backend = resolved.settings.physics.backend
        physics = None
        if isinstance(resolved.env_cfg, PointCloudEnvCfg):
            physics = harder(present_values(resolved.env_cfg, backend), backend)

        if physics:
            settings = [f"physics.{name}={value!r}" for name, value in physics.items()]
            again = command_line("train", f"resume={self._folder}", *settings)
            advice = f"go on with harder physics:\n  {again}"
        else:
            advice = (
                "set a smaller step (env.sim.dt and env.decimation), or tighten the velocity and force limits of the "
                "task's assets."
            )
        return EarlyStop("storm", ExitCode.STORM, f"storm: {reason}. Next: {advice}", physics)
