# SPDX-License-Identifier: BSD-3-Clause
"""Run the last steps of a failed environment again, and find the first value that breaks."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from isaaclab_pc.fault_dump import FaultDump
from isaaclab_pc.launch.replay_result import Fault, Reading, ReplayResult, TracePoint
from isaaclab_pc.launch.worker import ReplayJob
from isaaclab_pc.workers.physics_step import begin_step, run_physics_step, set_single_physics_steps
from isaaclab_pc.workers.replay_history import History
from isaaclab_pc.workers.replay_quantities import Quantity, action_quantity, read_quantities, scene_quantities
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

__all__ = ["Look", "Replay", "make_look", "replay", "replay_dump"]

TRACE_LENGTH = 8
"""Number of physics steps before the fault to report values of."""

REPEAT_PAUSE = 1.0
"""Time between two replays in a visualizer [s]."""

_MOST_OFFENDERS = 8
"""Offenders that are reported."""

Look = Callable[[float, Sequence[Reading]], None]
"""Shows a physics step to a person."""


@dataclass(frozen=True)
class Replay:
    """Result of one pass over a history."""

    fault: Fault | None
    """The first fault; None where all steps stayed finite and in bounds."""

    differences: tuple[float, ...]
    """Distance from the recorded state at the start of each step but the first, up to the fault [rad, m]."""


@dataclass(frozen=True)
class _PhysicsStep:
    """All readings after one physics step."""

    step: int
    substep: int
    readings: list[Reading]


def replay(
    env: Any, history: History, quantities: Sequence[Quantity], from_each_step: bool, look: Look | None = None
) -> Replay:
    """Run the recorded actions and stop at the first value that is not finite or out of its bound.

    Args:
        env: The unwrapped environment.
        history: What was recorded of it.
        quantities: What is checked after every physics step.
        from_each_step: Start every step from its recorded state, not from where the replay is.
        look: Called after each physics step, for a person who watches: with the steps of the history so far, the
            present one counted in parts, and all readings.

    Returns:
        What was found.
    """
    env.reset()
    set_single_physics_steps(env)

    differences: list[float] = []
    earlier: deque[_PhysicsStep] = deque(maxlen=TRACE_LENGTH)
    for step in range(history.num_steps):
        if step > 0:
            differences.append(history.difference(step))
        if step == 0 or from_each_step:
            history.restore(step)
        env.episode_length_buf[:] = history.episode_step[step]

        action = history.actions[step : step + 1]
        readings = read_quantities([action_quantity(env, action)])
        if _has_fault(readings):
            return Replay(_make_fault(_PhysicsStep(step, 0, readings), earlier), tuple(differences))

        begin_step(env, action)
        for substep in range(1, env.cfg.decimation + 1):
            run_physics_step(env)
            readings = read_quantities(quantities)
            if look is not None:
                look(step + substep / env.cfg.decimation, readings)
            current = _PhysicsStep(step, substep, readings)
            if _has_fault(readings):
                return Replay(_make_fault(current, earlier), tuple(differences))
            earlier.append(current)

    return Replay(None, tuple(differences))


def _has_fault(readings: Iterable[Reading]) -> bool:
    return any(reading.is_fault for reading in readings)


def _make_fault(current: _PhysicsStep, earlier: Iterable[_PhysicsStep]) -> Fault:
    """Describe a physics step that has a fault, given those before it."""

    def excess_growth(offender: Reading) -> float:
        before = [reading.excess for _, reading in _course(offender, earlier)]
        return before[-1] - before[-2] if len(before) >= 2 else 0.0

    # Where several fail in the same physics step, the one that was on its way to the bound before is named first.
    offenders = [reading for reading in current.readings if reading.is_out_of_bounds]
    offenders.sort(key=lambda one: (not one.set_by_joints, one.excess, excess_growth(one)), reverse=True)

    return Fault(
        step=current.step,
        substep=current.substep,
        offenders=tuple(offenders[:_MOST_OFFENDERS]),
        num_offenders=len(offenders),
        trace=tuple(
            TracePoint(entry.step, entry.substep, reading.value) for entry, reading in _course(offenders[0], earlier)
        ),
    )


def _course(offender: Reading, earlier: Iterable[_PhysicsStep]) -> list[tuple[_PhysicsStep, Reading]]:
    """Return what an offender was in the physics steps before, oldest first; nothing for an action."""
    return [(entry, reading) for entry in earlier for reading in entry.readings if reading.source == offender.source]


def replay_dump(job: ReplayJob) -> int:
    """Replay one environment of a dump; with a visualizer, again and again until it is closed.

    Args:
        job: The dump, the environment, and where the result goes.

    Returns:
        The exit code.

    Raises:
        ConfigError: The dump does not fit the task.
    """
    dump = FaultDump.load(job.dump)
    resolved = resolve(job.settings, 1, "replay")
    with open_env(resolved) as gym_env:
        env = gym_env.unwrapped
        history = History(env, dump, job.position)
        quantities = scene_quantities(env)

        run_through = replay(env, history, quantities, from_each_step=False)
        fault = run_through.fault
        # What no action caused, or what small differences grew past, shows when every step starts as it was recorded.
        from_each_step = fault is None
        if from_each_step:
            fault = replay(env, history, quantities, from_each_step=True).fault

        result = ReplayResult(
            backend=resolved.backend,
            dt=env.physics_dt,
            decimation=env.cfg.decimation,
            episode_step=tuple(history.episode_step),
            from_each_step=from_each_step,
            fault=fault,
            differences=run_through.differences,
        )
        result.write(job.result)

        look = make_look(env, result.fault)
        # Isaac Lab knows of its own windows only, not of a page of ours.
        while resolved.visualizers and (hasattr(env, "live_view") or env.sim.is_running()):
            replay(env, history, quantities, from_each_step, look)
            time.sleep(REPEAT_PAUSE)
    return 0


def make_look(env: Any, fault: Fault | None) -> Look:
    """Return what shows a physics step to a person, in real time at most, with what was found.

    Args:
        env: The unwrapped environment; without a page of ours, Isaac Lab's visualizers show the scene alone.
        fault: What the replay found; None: nothing.
    """
    worst = fault.offenders[0] if fault is not None else None
    page = getattr(env, "live_view", None)

    def look(step: float, readings: Sequence[Reading]) -> None:
        if page is not None:
            now = [reading.value for reading in readings if worst is not None and reading.source == worst.source]
            # An action is no reading of a physics step.
            page.show_physics_step(step, worst, now[0] if now else math.nan)
        time.sleep(env.physics_dt)

    return look
