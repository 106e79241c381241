# SPDX-License-Identifier: BSD-3-Clause
"""Try a number of environments: train for a moment, and tell how it went."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics import ContactUsage
from isaaclab_pc.runners import Decision, Runner
from isaaclab_pc.scaling import Outcome, Trial
from isaaclab_pc.scaling.trial_runner import phase_path
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
from isaaclab_pc.workers.probe_watch import ProbeWatch
from isaaclab_pc.workers.session import Session, guard_counts, open_session, record_faults

__all__ = ["probe"]

PROBE_SECONDS = 5.0
"""A probe measures one iteration, and more while they take less than this together [s]."""

FAULTY_SHARE = 0.1
"""A probe in which a larger share of the environments' steps ended by a fault has not trained: it is ``nan``."""


def probe(settings_path: Path, num_envs: int, result_path: Path) -> int:
    """Try a number of environments: build everything, warm up for one iteration, measure at least one more.

    Args:
        settings_path: The run's settings.
        num_envs: Environments to try.
        result_path: Where the trial goes, before anything is closed.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit; the trial says so too.
    """
    settings = RunSettings.load(settings_path)
    try:
        watch = ProbeWatch(settings.device, phase_path(result_path))
        with open_session(settings, num_envs, "probe", result_path.parent / f"{num_envs}", watch) as session:
            # As the run does: its ring is part of the memory.
            record_faults(session, settings, result_path.parent / f"{num_envs}" / "dumps")
            measured = _measure(session.runner)
            seconds = _mean_seconds(measured)
            frames = session.resolved.plan.samples_per_update
            usage = contact_usage(session.env)
            faults = sum(guard_counts(session.env).values())
            outcome, detail = _verdict(session, measured, usage, faults)
            rate = frames / sum(seconds.values()) if outcome is Outcome.FITS else 0.0
            trial = Trial(
                num_envs,
                outcome,
                rate,
                {"build": session.build_s, **seconds},
                detail=detail,
                memory=watch.memory(session.env, session.runner),
                contacts=usage,
                faults=faults,
            )
            trial.write(result_path)
    except ConfigError as error:
        Trial(num_envs, Outcome.ERROR, detail=str(error), config_error=True).write(result_path)
        raise
    return 0


def _measure(runner: Runner, clock: Callable[[], float] = time.monotonic) -> list[Mapping[str, float]]:
    """Return the metrics of every iteration but the first."""
    measured: list[Mapping[str, float]] = []
    start = 0.0

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        nonlocal start
        if completed == 1:
            start = clock()
            return Decision.CONTINUE
        measured.append(metrics)
        return Decision.STOP if clock() - start >= PROBE_SECONDS else Decision.CONTINUE

    runner.train(1000, on_iteration)
    return measured


def _mean_seconds(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean seconds of a rollout and of an update."""
    return {
        phase: sum(metrics[key] for metrics in measured) / len(measured)
        for phase, key in (("rollout", "collect_s"), ("update", "learn_s"))
    }


def _verdict(
    session: Session, measured: Sequence[Mapping[str, float]], usage: ContactUsage | None, faults: int
) -> tuple[Outcome, str]:
    """Judge a probe that came through: its outcome, and why it does not fit."""
    steps = session.resolved.plan.samples_per_update * session.runner.completed_iterations
    losses = [
        f"{name} is {value}"
        for metrics in measured
        for name, value in metrics.items()
        if name.startswith("loss/") and not math.isfinite(value)
    ]
    # First: contacts that were dropped also make numbers that are not finite, and more room may cure both.
    if usage is not None and (dropped := dropped_contacts(usage)):
        return Outcome.OVERFLOW, dropped
    if losses:
        return Outcome.NAN, f"{losses[0]} after an update"
    if faults > FAULTY_SHARE * steps:
        return Outcome.NAN, f"{faults} of {steps} environment steps ended by a fault that the guard found"
    return Outcome.FITS, ""
