# SPDX-License-Identifier: BSD-3-Clause
"""Tells when a run should stop: it learns nothing any more, or its physics fails in too many environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.launch.child_process import ExitCode
from isaaclab_pc.physics.ladder import harder, present_values
from isaaclab_pc.runners import load_adapter

__all__ = ["LearnerWatch", "Stop", "StormWatch", "diverged"]

PATIENCE = 3
"""Iterations in a row without a single update after which the learner counts as lost."""

WINDOW_STEPS = 100
"""Steps of every environment over which a storm is measured, or one iteration where that is longer."""

MIN_FAULTS = 4
"""Fewer faults in a window are no storm, however few environments there are."""


@dataclass(frozen=True)
class Stop:
    """Why a run stops before its end, and what to do."""

    status: str
    """What ``run.json`` calls it."""

    code: ExitCode
    """How the process ends."""

    message: str
    """For people: what happened, and the next step."""

    physics: Mapping[str, float] | None = None
    """For a supervisor: fields of ``physics`` to go on with."""


class LearnerWatch:
    """Counts iterations in which every update was skipped."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Start with none.

        Args:
            config: The run's config.
        """
        self._config = config
        self._lost = 0

    def look(self, metrics: Mapping[str, float]) -> Stop | None:
        """Look at an iteration.

        Args:
            metrics: What the runner reported.

        Returns:
            Why to stop, or None.
        """
        skipped = metrics.get("Learner/skipped_updates", 0.0)
        self._lost = self._lost + 1 if 0 < skipped == metrics.get("Learner/updates") else 0
        if self._lost < PATIENCE:
            return None
        return diverged(self._config, f"all updates of {PATIENCE} iterations in a row were skipped")


def diverged(config: Mapping[str, Any], what: str) -> Stop:
    """Return the stop of a learner that cannot go on.

    Args:
        config: The run's config.
        what: What was found.
    """
    if config["guard"]["mode"] == "disabled":
        advice = "train with guard.mode=quarantine, which keeps the values of bad environments from the learner"
    else:
        advice = f"train with a smaller {load_adapter(config['runner']['name']).learning_rate_key}"
    return Stop(
        "failed",
        ExitCode.DIVERGED,
        f"the learner's loss, gradient or weights are not finite: {what}. The last checkpoint holds the weights from "
        f"before. Next: {advice}.",
    )


class StormWatch:
    """Counts the environments that the guard found bad within a window."""

    def __init__(self, env: Any, resolved: Any, config: Mapping[str, Any], folder: Path) -> None:
        """Start a window.

        Args:
            env: The gym environment; one without a guard has no storms.
            resolved: What it was made from, a :class:`~isaaclab_pc.workers.session.Resolved`.
            config: The run's config. ``guard.storm`` is the largest share of the environments that may fail; None for
                any.
            folder: The run's folder, for the advice.
        """
        guard, share = getattr(env.unwrapped, "guard", None), config["guard"]["storm"]
        self._guard = guard if share is not None and hasattr(guard, "env_counts") else None
        self._resolved, self._share, self._folder = resolved, share or 0.0, folder
        self._physics = config["physics"]
        self._steps = 0
        if self._guard is not None:
            self._before = self._guard.env_counts.clone()

    def look(self) -> Stop | None:
        """Look after an iteration; at the end of a window this waits for the device.

        Returns:
            Why to stop, or None.
        """
        self._steps += self._resolved.plan.horizon
        if self._guard is None or self._steps < WINDOW_STEPS:
            return None
        faults = self._guard.env_counts - self._before
        benched = self._guard.benched
        bad = int(((faults > 0) | benched).sum())
        enough = int(faults.sum()) >= MIN_FAULTS or bool(benched.any())
        steps, self._steps = self._steps, 0
        self._before += faults
        if not enough or bad <= self._share * len(faults):
            return None
        what = f"{bad} of {len(faults)} environments failed within {steps} steps (guard.storm={self._share:g})"
        return self._stop(what)

    def _stop(self, what: str) -> Stop:
        from isaaclab_pc.envs import PointCloudEnvCfg

        resolved = self._resolved
        advice, physics = "", None
        if isinstance(resolved.env_cfg, PointCloudEnvCfg):
            present = present_values(resolved.env_cfg, resolved.backend, self._physics)
            physics = harder(present, resolved.backend)
            settings = " ".join(f"physics.{name}={value!r}" for name, value in physics.items())
            advice = f"go on with harder physics:\n  python scripts/train.py resume={self._folder} {settings}"
        if not physics:
            advice = (
                "set a smaller step (env.sim.dt and env.decimation), or tighten the velocity and force limits of the "
                "task's assets."
            )
        return Stop("storm", ExitCode.STORM, f"storm: {what}. Next: {advice}", physics)
