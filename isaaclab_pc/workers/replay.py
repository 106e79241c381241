# SPDX-License-Identifier: BSD-3-Clause
"""Run the last steps of a failed environment again, and find the first value that breaks."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.replay_result import Fault, Reading, ReplayResult
from isaaclab_pc.faults.replay_state import History, StateReader
from isaaclab_pc.run.jobs import ReplayJob
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

TRACE_LENGTH = 8
"""Number of physics steps before the fault to report values of."""

REPEAT_PAUSE = 1.0
"""Time between two replays in a visualizer [s]."""

_MOST_OFFENDERS = 8
"""Offenders that are reported."""

Look = Callable[[float, Sequence[Reading]], None]
"""Shows a physics step to a person."""


class Finding(NamedTuple):
    """Result of one pass over a history; fields as in :class:`ReplayResult`."""

    fault: Fault | None
    differences: tuple[float, ...]


def repeat_steps(env: Any, history: History, from_each_step: bool, look: Look | None = None) -> Finding:
    """Run the recorded actions, and stop at the first value that is not finite or out of its bound.

    With ``from_each_step`` every step starts from its recorded state, not from where the replay is. ``look`` is called
    after each physics step with all readings and the steps of the history so far, in parts.
    """
    differences: list[float] = []
    earlier: deque[list[Reading]] = deque(maxlen=TRACE_LENGTH)
    for step, substep, readings in _physics_steps(env, history, from_each_step, differences):
        if substep > 0 and look is not None:
            look(step + substep / env.cfg.decimation, readings)
        if any(reading.is_fault for reading in readings):
            return Finding(_make_fault(step, substep, readings, earlier), tuple(differences))
        if substep > 0:
            earlier.append(readings)
    return Finding(None, tuple(differences))


def _physics_steps(
    env: Any, history: History, from_each_step: bool, differences: list[float]
) -> Iterator[tuple[int, int, list[Reading]]]:
    """Run a history; yields step, physics step from 1, or 0 for the action, and readings; adds to ``differences``."""
    env.reset()
    # Every call of env.sim.step is one physics step, also where the backend would run all of an action's in one.
    env.sim.physics_manager.set_decimation(1)
    reader = StateReader(env)
    # What Isaac Lab's own steps do up to the end of physics: they offer no way to look between physics steps.
    manager = getattr(env, "action_manager", None)
    process_action = env._pre_physics_step if manager is None else manager.process_action
    apply_action = env._apply_action if manager is None else manager.apply_action

    for step in range(history.num_steps):
        if step > 0:
            differences.append(history.difference(step))
        if step == 0 or from_each_step:
            history.restore(step)
        env.episode_length_buf[:] = history.episode_step[step]

        action = history.actions[step : step + 1]
        yield step, 0, reader.read_action(action)
        process_action(action)
        for substep in range(1, env.cfg.decimation + 1):
            apply_action()
            env.scene.write_data_to_sim()
            env.sim.step(render=False)
            if env.sim.is_rendering:
                env.sim.render()
            env.scene.update(dt=env.physics_dt)
            yield step, substep, reader.read_state()


def _make_fault(step: int, substep: int, readings: Sequence[Reading], earlier: Sequence[list[Reading]]) -> Fault:
    """Describe a physics step that has a fault, given the readings of those before it."""

    def course(offender: Reading) -> list[Reading]:
        return [reading for entry in earlier for reading in entry if reading.source == offender.source]

    def excess_growth(offender: Reading) -> float:
        before = [reading.excess for reading in course(offender)]
        return before[-1] - before[-2] if len(before) >= 2 else 0.0

    # Where several fail in the same physics step, the one that was on its way to the bound before is named first.
    offenders = [reading for reading in readings if reading.is_out_of_bounds]
    offenders.sort(key=lambda one: (not one.set_by_joints, one.excess, excess_growth(one)), reverse=True)

    return Fault(
        step=step,
        substep=substep,
        offenders=tuple(offenders[:_MOST_OFFENDERS]),
        num_offenders=len(offenders),
        trace=tuple(reading.value for reading in course(offenders[0])),
    )


def replay(job: ReplayJob, *_: object) -> int:
    """Replay one environment of a dump; with a visualizer, again and again until it is closed.

    With the recorded physics every step begins in its recorded state, which finds a fault in the physics step in which
    it arises. Other physics would leave the recording: the first state alone is restored.

    Raises:
        ConfigError: The dump does not fit the task.
    """
    dump = FaultDump.load(job.dump)
    recorded = RunSettings.from_plain(dump.about["config"], "The dump").physics
    from_each_step = job.settings.physics == recorded.model_copy(update={"backend": dump.about["backend"]})

    resolved = resolve(job.settings, 1)
    with open_env(resolved) as gym_env:
        env = gym_env.unwrapped
        history = History(env, dump, job.position)
        finding = repeat_steps(env, history, from_each_step)
        result = ReplayResult(
            backend=resolved.settings.physics.backend,
            dt=env.physics_dt,
            decimation=env.cfg.decimation,
            episode_step=tuple(history.episode_step),
            from_each_step=from_each_step,
            fault=finding.fault,
            differences=finding.differences,
        )
        result.write(job.result)

        look = make_look(env, finding.fault)
        # Isaac Lab knows of its own windows only, not of a page of ours.
        while resolved.settings.visualizers and (hasattr(env, "live_view") or env.sim.is_running()):
            repeat_steps(env, history, from_each_step, look)
            time.sleep(REPEAT_PAUSE)
    return 0


def make_look(env: Any, fault: Fault | None) -> Look:
    """Return what shows a physics step with the found fault, in real time at most; without a page it only waits."""
    worst = fault.offenders[0] if fault is not None else None
    page = getattr(env, "live_view", None)

    def look(step: float, readings: Sequence[Reading]) -> None:
        if page is not None:
            now = [reading.value for reading in readings if worst is not None and reading.source == worst.source]
            # An action is no reading of a physics step.
            page.show_physics_step(step, worst, now[0] if now else math.nan)
        time.sleep(env.physics_dt)

    return look
