# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/replay.py``: run the last steps of a failed environment again, and say where it broke. Loads no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from isaaclab_pc.cli.command_line import Command, Takes, keys_of, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.faults.replay_result import Fault, Reading, ReplayResult
from isaaclab_pc.processes.child_process import ExitCode, was_stopped
from isaaclab_pc.run.algorithm import with_state_observations
from isaaclab_pc.run.folder import make_folder
from isaaclab_pc.run.jobs import ReplayJob, launch_worker
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import installed_versions


class ReplaySettings(ScriptSettings):
    """Settings of a replay besides those of its run."""

    dump: str | None = None
    """The file."""

    env: Annotated[int, Field(ge=0)] | None = None
    """Environment, by its index in the run; null: the first of the file."""

    task: str | None = None
    """Refuses a dump of another task."""


MAY_CHANGE = ("physics.", "device", "visualizer", "host", "guard.max_abs")
"""Settings of the run, and groups of them, that may differ from the recorded ones."""

TAKES = Takes(ReplaySettings, MAY_CHANGE)

HELP = f"""\
Run the last steps of an environment that failed again, alone, and say in which physics step, in which joint or body
and in which quantity the first value arises that is not finite or out of its bound.

  python scripts/replay.py dump=<path> [key=value ...]

The guard writes the first failures of a run to <run>/dumps/dump_<number>.npz: the state, targets and actions of the
last steps of the environments that failed, with the run's settings. The replay builds one environment from these
settings, repeats the recorded actions and looks at every joint and body after every physics step. Each step begins in
its recorded state; with other settings of the physics, the first step alone: would they have kept it whole?

Examples
  python scripts/replay.py dump=logs/rsl_rl/lift/<time>/dumps/dump_0.npz           what broke first?
  python scripts/replay.py dump=<path> env=12                                      another environment of the same file
  python scripts/replay.py dump=<path> physics.substeps=4                          would this have kept it whole?
  python scripts/replay.py dump=<path> physics=ovphysx                             would the other backend?
  python scripts/replay.py dump=<path> visualizer=viser                            watch it break, in a browser

{settings_table(keys_of(*MAY_CHANGE), ReplaySettings)}

Settings of the run are as recorded unless they are given. With a visualizer, the steps are shown again and again, not
faster than real time, until the window is closed or Ctrl-C.

The finding is printed, and written to replay/<time>/result.json beside the dump. Exit codes: 0, reproduced or not; 2
where the dump cannot be used; 128 + N after a signal N; 1 otherwise.
"""

SAME_STATE = 1e-3
"""Largest difference at which a replay still follows its recording [rad, m]."""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Replay one environment of a dump; returns the exit code, as in :data:`HELP`."""
    own, command = parse_script_command(argv, TAKES)
    if own.dump is None:
        raise ConfigError("dump=<path> is missing: the guard writes dumps to <run>/dumps/dump_<number>.npz.")

    path = Path(own.dump)
    dump = FaultDump.load(path)
    position = dump.position_of(own.env)
    _check_origin(dump, own.task)
    settings = prepare(_settings(dump, command))

    try:
        folder = make_folder(path.resolve().parent / "replay")
    except ConfigError as error:
        raise ConfigError(f"{error} Or copy the dump to where you may write.") from None
    screen = current()
    screen.say(_introduction(path, dump, position))
    if settings.visualizer:
        screen.say("shown again and again until Ctrl-C, or until its window is closed; then the finding")

    screen.begin("replay")
    result_path = folder / "result.json"
    code = launch_worker(ReplayJob(settings, path.resolve(), position, result_path), folder)
    # In a visualizer, Ctrl-C is how a replay ends; the result was written before it was shown again.
    was_watched = was_stopped(code) and bool(settings.visualizers) and result_path.is_file()
    if code == ExitCode.OK or was_watched:
        screen.decide(f"\n{describe(ReplayResult.read(result_path))}\n")
        screen.made("result", result_path)
        return ExitCode.OK
    return code


def _check_origin(dump: FaultDump, asked: str | None) -> None:
    """Refuse a dump of another task, or of other versions of the packages that define its physics."""
    task = dump.about["task"]
    if asked is not None and resolve_task(asked) != task:
        raise ConfigError(f"task={asked}: the dump is of {task}.")

    if not dump.about["config"]:
        raise ConfigError("The dump has no settings of a run: it was recorded by other code, which has to replay it.")

    recorded = dump.about["versions"]
    installed = installed_versions(SIMULATION_PACKAGES)
    differing = sorted(name for name in recorded.keys() | installed.keys() if recorded.get(name) != installed.get(name))
    # These two define the task and its scene. With another solver version a replay may still find the fault.
    for name in ("isaaclab_pc", "isaaclab"):
        if name in differing:
            raise ConfigError(
                f"The dump was made with {name} {recorded.get(name)}, installed is {installed.get(name)}: replay it "
                f"with pip install '{name}=={recorded.get(name)}'."
            )
    for name in differing:
        current().say(f"note: the dump was made with {name} {recorded.get(name)}, installed is {installed.get(name)}")


def _settings(dump: FaultDump, command: Command) -> RunSettings:
    """Return the recorded settings of the run, with those that were given on the command line in their place."""
    recorded = RunSettings.from_plain(dump.about["config"], "The dump")
    if recorded.task != dump.about["task"]:
        raise ConfigError(f"The dump contradicts itself: it names {dump.about['task']} and {recorded.task}.")

    asked = compose(command.settings).flat()
    changes: dict[str, Any] = {"physics.backend": dump.about["backend"]}
    changes |= {key: asked[key] for key in ("visualizer", "host", *command.given)}

    if recorded.guard.mode == "raise":
        # The replay reports faults itself, and must not stop at an exception.
        changes["guard.mode"] = "quarantine"
    if changes["visualizer"] is None:
        # The state is all that a replay looks at; cameras would only cost time where nobody watches.
        recorded = with_state_observations(recorded)
    # Nobody learns, and the teacher's run or the demonstrations may be gone.
    return recorded.with_values(changes | {"teacher": None, "demos": None, "num_envs": 1})


def _introduction(path: Path, dump: FaultDump, position: int) -> str:
    arrays = dump.arrays
    about = dump.about
    first = int(arrays["episode_step"][position, 0])
    steps = int(arrays["length"][position])
    return (
        f"dump: {path}\n"
        f"environment {arrays['env_id'][position]} of {about['task']} on {about['backend']}, seed {about['seed']}, "
        f"episode {arrays['episode'][position, 0]}: {', '.join(dump.causes_of(position))} in step "
        f"{arrays['step'][position]} of the run\n"
        f"history: {steps} steps, from step {first} of the episode"
    )


def describe(result: ReplayResult) -> str:
    """Put the finding of a replay into words, in several lines."""
    begin = "every step begun in its recorded state" if result.from_each_step else "only the first state restored"
    head = (
        f"replayed: one environment, {result.backend}, physics steps of {result.dt:.4g} s, {result.decimation} per "
        f"action; {begin}"
    )
    num_steps = len(result.episode_step)
    if result.fault is None:
        found = [f"did not reproduce: all {num_steps} steps stayed finite and in bounds."]
    else:
        found = _fault_lines(result, result.fault)
    return "\n".join([head, *found, _fidelity(result)])


def _fault_lines(result: ReplayResult, fault: Fault) -> list[str]:
    when = f"physics step {fault.substep} of {result.decimation}" if fault.substep else "the action itself"
    worst, *others = fault.offenders
    lines = [
        f"first fault: step {fault.step + 1} of {len(result.episode_step)} "
        f"(step {result.episode_step[fault.step]} of the episode), {when}",
        f"  {_reading_line(worst)}",
    ]
    if fault.trace:
        values = ", ".join(f"{value:.4g}" for value in fault.trace)
        lines.append(f"    in the {len(fault.trace)} physics steps before: {values}")

    lines.extend(f"  {_reading_line(other)}" for other in others)
    unnamed = fault.num_offenders - len(fault.offenders)
    if unnamed > 0:
        lines.append(f"  and {unnamed} more in the same physics step")
    return lines


def _reading_line(reading: Reading) -> str:
    quantity, _, unit = reading.quantity.partition(" [")
    unit = f" {unit.removesuffix(']')}" if unit else ""
    where = " ".join(part for part in (reading.asset, reading.name) if part)
    return f"{where}: {quantity} {reading.value:.4g}{unit}, bound {reading.bound:g}"


def _fidelity(result: ReplayResult) -> str:
    differences = result.differences
    if not differences:
        return "fidelity: the history has nothing to compare with before the fault."

    for step, difference in enumerate(differences, start=1):
        # Written so that NaN, too, counts as having left the recording.
        if not difference <= SAME_STATE:
            return f"fidelity: the replay leaves the recording in step {step}, by {difference:.2g} rad or m."
    return f"fidelity: the replay follows the recording to within {max(differences):.2g} rad and m."
