# SPDX-License-Identifier: BSD-3-Clause
"""What a probe child does: train a size for a moment, and tell how it went."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import load_config

if TYPE_CHECKING:
    from isaaclab_pc.physics import ContactUsage
    from isaaclab_pc.runners import Runner
    from isaaclab_pc.scaling import Outcome
    from isaaclab_pc.workers.session import Session

__all__ = ["guard_counts", "plan", "probe"]

PROBE_SECONDS = 5.0
"""A probe measures one iteration, and more while they take less than this together [s]."""

FAULTY_SHARE = 0.1
"""A probe in which a larger share of the environments' steps ended by a fault has not trained: it is ``nan``."""


def plan(config_path: Path, num_envs: int, result_path: Path) -> int:
    """Tell what the configs say about a run's memory and batches.

    Args:
        config_path: The run's config.
        num_envs: Environments to plan for.
        result_path: Where the :class:`~isaaclab_pc.scaling.plan_report.PlanReport` goes.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    from isaaclab_pc.commands.train import LOGS
    from isaaclab_pc.scaling.earlier_trials import RunKind, find_earlier_trials
    from isaaclab_pc.scaling.machine import Machine
    from isaaclab_pc.scaling.memory_plan import missing_kinds, predict_memory
    from isaaclab_pc.scaling.plan_report import PlanReport
    from isaaclab_pc.scaling.preflight import preflight
    from isaaclab_pc.workers.session import resolve

    config = load_config(config_path)
    resolved = resolve(config, num_envs, "plan")
    earlier = find_earlier_trials(RunKind.of(config), LOGS / "scale")
    parts = predict_memory(resolved, earlier)
    findings = preflight(resolved.env_cfg, resolved.plan, Machine.here(resolved.device), resolved.visualizers)
    report = PlanReport(
        parts=parts,
        missing=tuple(missing_kinds(parts, resolved, earlier)),
        batch=resolved.plan,
        findings=tuple(f"{finding.severity}: {finding}" for finding in findings),
    )
    report.write(result_path)
    return 0


def probe(config_path: Path, num_envs: int, result_path: Path) -> int:
    """Try a number of environments: build everything, warm up for one iteration, measure at least one more.

    Args:
        config_path: The run's config.
        num_envs: Environments to try.
        result_path: Where the trial goes, before anything is closed.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit; the trial says so too.
    """
    from isaaclab_pc.scaling import Outcome, Trial
    from isaaclab_pc.scaling.trial_runner import phase_path
    from isaaclab_pc.workers.contact_watch import contact_usage
    from isaaclab_pc.workers.probe_watch import ProbeWatch
    from isaaclab_pc.workers.session import open_session, record_faults

    config = load_config(config_path)
    try:
        watch = ProbeWatch(config["device"], phase_path(result_path))
        with open_session(config, num_envs, "probe", result_path.parent / f"{num_envs}", watch) as session:
            # As the run does: its ring is part of the memory.
            record_faults(session, config, result_path.parent / f"{num_envs}" / "dumps")
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
    from isaaclab_pc.runners import Decision

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
    from isaaclab_pc.scaling import Outcome
    from isaaclab_pc.workers.contact_watch import dropped_contacts

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


def guard_counts(env: Any) -> dict[str, int]:
    """Return how many environments the guard ended so far, by cause; empty for a task without a guard.

    Args:
        env: The gym environment.
    """
    guard = getattr(env.unwrapped, "guard", None)
    return {cause: int(count) for cause, count in guard.counts.items()} if guard is not None else {}
