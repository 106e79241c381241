# SPDX-License-Identifier: BSD-3-Clause
"""Try a number of environments: train for a few iterations, and report memory, speed and outcome."""

import ctypes
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision, Runner
from isaaclab_pc.num_envs.search import Objective
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.num_envs.trial_runner import phase_path
from isaaclab_pc.physics import ContactUsage
from isaaclab_pc.run.jobs import ProbeJob
from isaaclab_pc.workers.compiled_kernels import has_compiled_kernels
from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
from isaaclab_pc.workers.probe_watch import ProbeWatch, TooManyEnvironmentsError
from isaaclab_pc.workers.session import Session, guard_counts, open_session, record_faults

PROBE_SECONDS = 5.0
"""Time that a probe measures for [s]; at least one iteration."""

FAULTY_SHARE = 0.1
"""Largest share of environment steps that may end by a fault; beyond it, the outcome is ``nan``."""


def probe(job: ProbeJob, *_: object) -> int:
    """Try a number of environments: build everything, warm up for one iteration, measure at least one more.

    Raises:
        ConfigError: The settings do not fit; the trial says so too.
    """
    try:
        _train_briefly(job)
    except TooManyEnvironmentsError as error:
        trial = Trial(job.num_envs, Outcome.TOO_MANY, detail=str(error), most_envs=error.most_envs)
        _hand_over(trial, job.result)
    except ConfigError as error:
        _hand_over(Trial(job.num_envs, Outcome.ERROR, detail=str(error), config_error=True), job.result)
        raise
    return 0


def _hand_over(trial: Trial, path: Path) -> None:
    """Write the trial after all output: the parent ends this process then."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Native code's output, too: a solver's warnings of dropped contacts, for one.
    ctypes.CDLL(None).fflush(None)
    trial.write(path)


def _train_briefly(job: ProbeJob) -> None:
    settings, num_envs = job.settings, job.num_envs
    search = SearchSettings.of(settings) if settings.num_envs == "auto" else None
    # As many as the user asked for are never too many for the agent.
    at_least = (search.min or 1) if search is not None and search.keeps_to_agent else None
    run_dir = job.result.parent / f"{num_envs}"
    watch = ProbeWatch(settings.device, phase_path(job.result), at_least)
    with open_session(settings, num_envs, run_dir, watch, learns=True) as session:
        # The run will record faults, and the recorder's ring buffer takes memory.
        recorder = record_faults(session.env, settings, run_dir / "dumps")
        briefly = search is not None and search.resolved_objective is Objective.MEMORY
        measured = _measure(session.runner, briefly=briefly)

        plan = session.resolved.plan
        # Other programs only ever make a phase longer.
        phases = {"rollout": "collect_s", "update": "learn_s"}
        seconds = {phase: min(metrics[key] for metrics in measured) for phase, key in phases.items()}
        usage = contact_usage(session.env)
        faults = sum(guard_counts(session.env).values())
        outcome, detail = _judge(session, measured, usage, faults)
        speed = plan.samples_per_update / sum(seconds.values())

        trial = Trial(
            num_envs,
            outcome,
            frames_per_second=speed if outcome is Outcome.FITS else 0.0,
            seconds={"build": session.build_s, **seconds},
            samples=plan.samples_per_update,
            minibatch=(plan.minibatch_size, plan.horizon) if settings.recurrent else (plan.minibatch_size,),
            compiled=has_compiled_kernels(),
            detail=detail,
            memory=watch.memory(session.env, session.runner, recorder),
            contacts=usage,
            faults=faults,
            most_envs=watch.most_envs,
        )
        # Before the session closes, which takes seconds; Kit ends the process as it closes.
        _hand_over(trial, job.result)


def _measure(
    runner: Runner, *, briefly: bool = False, clock: Callable[[], float] = time.monotonic
) -> list[Mapping[str, float]]:
    """Train, and return the metrics of every iteration but the first, which also compiles kernels and allocates."""
    # Briefly, where memory alone counts, the first may use up the time and is returned then: the optimizer allocates
    # its state at the first minibatch, so memory is at its peak at the later ones.
    measured: list[Mapping[str, float]] = []
    start = clock()

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        nonlocal start
        measured.append(metrics)
        if completed == 1 and not briefly:
            start = clock()
            return Decision.CONTINUE
        return Decision.STOP if clock() - start >= PROBE_SECONDS else Decision.CONTINUE

    runner.train(1000, on_iteration)
    return measured[1:] or measured


def _judge(
    session: Session, measured: Sequence[Mapping[str, float]], usage: ContactUsage | None, faults: int
) -> tuple[Outcome, str]:
    """Return the outcome of a probe that trained, and why it does not fit."""
    # First: dropped contacts can also be the reason of numbers that are not finite, and larger buffers cure both.
    if dropped := dropped_contacts(usage):
        return Outcome.OVERFLOW, dropped

    bad_losses = [
        f"{name} is {value}"
        for metrics in measured
        for name, value in metrics.items()
        if name.startswith("loss/") and not math.isfinite(value)
    ]
    if bad_losses:
        return Outcome.NAN, f"{bad_losses[0]} after an update"

    steps = session.resolved.plan.samples_per_update * session.runner.completed_iterations
    if faults > FAULTY_SHARE * steps:
        return Outcome.NAN, f"{faults} of {steps} environment steps ended by a fault that the guard found"
    return Outcome.FITS, ""
