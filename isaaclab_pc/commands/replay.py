# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/replay.py``: run the last steps of a failed environment again, and say where it broke. Loads no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.commands.train import show_log
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.fault_dump import SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.launch.child_process import run_child, run_script
from isaaclab_pc.launch.compose import Command, compose, parse_command, save_config, split_own, validate
from isaaclab_pc.launch.platform import check_isaaclab, settle_platform
from isaaclab_pc.launch.run_record import CONFIG_NAME, make_folder
from isaaclab_pc.launch.task_names import resolve_task
from isaaclab_pc.packages import installed_versions

__all__ = ["describe", "main"]

HELP = """\
Run the last steps of an environment that failed again, alone, and say in which physics step, in which joint or body
and in which quantity the first value arises that is not finite or out of its bound.

  python scripts/replay.py dump=<path> [key=value ...]

The guard writes the first failures of a run to <run>/dumps/dump_<number>.npz: the state, targets and actions of the
last steps of the environments that failed, with the run's settings. The replay builds one environment from these
settings, puts it into the first recorded state of the episode, repeats the recorded actions and looks at every joint
and body after every physics step. Where that breaks nothing, it does so again with every step begun in its recorded
state.

Examples
  python scripts/replay.py dump=logs/rsl_rl/lift/<time>/dumps/dump_0.npz           what broke first?
  python scripts/replay.py dump=<path> env=12                                      another environment of the same file
  python scripts/replay.py dump=<path> physics.substeps=4                          would this have kept it whole?
  python scripts/replay.py dump=<path> physics=ovphysx                             would the other backend?
  python scripts/replay.py dump=<path> visualizer=viser                            watch it break, in a browser

Settings
  dump                   the file
  env        null        environment, by its index in the run; null: the first of the file
  task       null        refuses a dump of another task
  physics, physics.*, device, guard.max_abs     as in scripts/train.py --help; as recorded
  visualizer null        viser or rerun (in a browser), newton_gl, newton_rtx or kit (a window): the steps are shown
                         again and again, not faster than real time, until the window is closed or Ctrl-C

The finding is printed, and written to replay/<time>/result.json beside the dump. Exit codes: 0, reproduced or not; 2
where the dump cannot be used; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
"""

RESULT_NAME = "result.json"
OWN = ("dump", "env", "task")
MAY_CHANGE = ("physics", "device", "visualizer", "guard.max_abs")
FOLLOWS = 1e-3
"""Largest difference of a replay that still follows its recording [rad, m]."""


def main(argv: Sequence[str]) -> int:
    """Replay one environment of a dump.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code: 0; 2 for a wrong dump or setting; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
    """
    return run_script(argv, HELP, run)


def run(argv: Sequence[str]) -> int:
    """Replay what a command line names.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.

    Raises:
        ConfigError: The dump cannot be read or does not fit, or a setting is wrong.
    """
    check_isaaclab()
    own, command = _split(argv)
    path = Path(own["dump"])
    dump = FaultDump.load(path)
    position = dump.position_of(_env_id(own.get("env")))
    _check_origin(dump, own.get("task"))
    config = _config(dump, command)
    settle_platform(config)

    folder = _make_folder(path.resolve().parent / "replay")
    save_config(folder / CONFIG_NAME, config)
    print(_introduce(path, dump, position), flush=True)
    if config["visualizer"]:
        print("shown again and again until Ctrl-C, or until its window is closed; then the finding", flush=True)
    code = run_child(child_command(path.resolve(), position, folder), log=folder / "worker.log")
    result = _read_result(folder / RESULT_NAME)
    if code == 0 or (code in (130, 143) and config["visualizer"] and "found" in result):
        code = 0  # a replay that is watched ends with Ctrl-C
        print(f"\n{describe(result)}\n\nresult: {folder / RESULT_NAME}", flush=True)
    elif code == 2:
        raise ConfigError(result.get("error", f"the replay was refused; see {folder / 'worker.log'}"))
    elif code not in (130, 143):
        show_log(folder / "worker.log", code)
        code = 1
    return code


def child_command(dump: Path, position: int, folder: Path) -> list[str]:
    """Return the command line of the child that simulates.

    Args:
        dump: The file.
        position: Which of its environments.
        folder: Where the config is and the result goes.
    """
    return [sys.executable, "-m", "isaaclab_pc.workers.replay", str(dump), str(position), str(folder)]


def _split(argv: Sequence[str]) -> tuple[dict[str, str], Command]:
    """Tell what only a replay has from the settings of a run."""
    own, others = split_own(argv, OWN)
    for argument in others:
        key = argument.partition("=")[0]
        if "=" in argument and not argument.startswith("-") and not _may_change(key):
            raise ConfigError(f"{key} is not a setting of a replay: {closest(key, [*OWN, *MAY_CHANGE])} See --help.")
    command = parse_command(others)
    if command.flags:
        raise ConfigError(f"{command.flags[0]} has no use here; --help shows what has.")
    if not own.get("dump"):
        raise ConfigError("dump=<path> is missing: the guard writes dumps to <run>/dumps/dump_<number>.npz.")
    return own, command


def _may_change(key: str) -> bool:
    return key in MAY_CHANGE or key.startswith("physics.")


def _env_id(text: str | None) -> int | None:
    if text in (None, "", "null"):
        return None
    if not text.isdecimal():
        raise ConfigError(f"env={text}: expected null, or the index of an environment.")
    return int(text)


def _check_origin(dump: FaultDump, asked: str | None) -> None:
    """Refuse a dump of another task than was asked for, or of another version of what defines its physics."""
    task = dump.about["task"]
    if asked is not None and resolve_task(asked)[0] != task:
        raise ConfigError(f"task={asked}: the dump is of {task}.")
    if not isinstance(dump.about["config"], dict) or not dump.about["config"]:
        raise ConfigError("The dump has no settings of a run: it was recorded by other code, which has to replay it.")
    there, here = dump.about["versions"], installed_versions(SIMULATION_PACKAGES)
    for name in ("isaaclab_pc", "isaaclab"):
        if there.get(name) != here.get(name):
            raise ConfigError(
                f"The dump was made with {name} {there.get(name)}, installed is {here.get(name)}: replay it with "
                f"pip install '{name}=={there.get(name)}'."
            )
    others = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    for name in others:
        print(f"note: the dump was made with {name} {there.get(name)}, installed is {here.get(name)}", flush=True)


def _config(dump: FaultDump, command: Command) -> dict[str, Any]:
    """Return the run's settings with what was given in their place."""
    config = json.loads(json.dumps(dump.about["config"]))
    try:
        validate(config)
    except (ConfigError, KeyError, TypeError) as error:
        raise ConfigError(f"The dump's settings do not fit this version: {error}") from None
    if config["task"] != dump.about["task"]:
        raise ConfigError(f"The dump contradicts itself: it names {dump.about['task']} and {config['task']}.")
    asked = compose(command.settings)
    config["visualizer"] = asked["visualizer"]
    config["physics"]["backend"] = dump.about["backend"]
    for key in sorted(command.given):
        group, _, name = key.partition(".")
        if key == "physics":
            config["physics"]["backend"] = asked["physics"]["backend"]
        elif name:
            config[group][name] = asked[group][name]
        else:
            config[group] = asked[group]
    if config["guard"]["mode"] == "raise":
        config["guard"]["mode"] = "quarantine"  # the replay itself says what is bad
    # The state is all that a replay looks at; cameras would only cost time.
    return config | {"obs": "state", "num_envs": 1}


def _make_folder(parent: Path) -> Path:
    try:
        return make_folder(parent)
    except OSError as error:
        raise ConfigError(f"{parent} cannot be made ({error}): copy the dump to where you may write.") from None


def _read_result(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _introduce(path: Path, dump: FaultDump, position: int) -> str:
    arrays, about = dump.arrays, dump.about
    first, steps = int(arrays["episode_step"][position, 0]), int(arrays["length"][position])
    return (
        f"dump: {path}\n"
        f"environment {arrays['env_id'][position]} of {about['task']} on {about['backend']}, seed {about['seed']}, "
        f"episode {arrays['episode'][position, 0]}: {', '.join(dump.causes_of(position))} in step "
        f"{arrays['step'][position]} of the run\n"
        f"history: {steps} steps, from step {first} of the episode"
    )


def describe(result: Mapping[str, Any]) -> str:
    """Put the finding of a replay into words.

    Args:
        result: What the child wrote.

    Returns:
        Several lines.
    """
    steps, decimation = result["steps"], result["decimation"]
    head = f"{result['backend']}, physics steps of {result['dt']:.4g} s, {decimation} per action"
    lines = [f"replayed: one environment, {head}"]
    if result["from_each_step"]:
        lines.append("run through, nothing broke; then every step was begun in its recorded state:")
    if result["found"]:
        step = result["step"]
        when = f"physics step {result['substep']} of {decimation}" if result["substep"] else "the action itself"
        lines.append(
            f"first fault: step {step + 1} of {steps} (step {result['episode_step'][step]} of the episode), {when}"
        )
        worst, *others = result["offenders"]
        lines.append(f"  {_value(worst)}")
        if result["trace"]:
            course = ", ".join(f"{entry['value']:.4g}" for entry in result["trace"])
            lines.append(f"    in the {len(result['trace'])} physics steps before: {course}")
        lines.extend(f"  {_value(other)}" for other in others)
        rest = result["num_offenders"] - len(result["offenders"])
        if rest > 0:
            lines.append(f"  and {rest} more in the same physics step")
    else:
        lines.append(f"did not reproduce: all {steps} steps stayed finite and in bounds.")
    return "\n".join([*lines, _fidelity(result["differences"])])


def _value(value: Mapping[str, Any]) -> str:
    name, _, unit = value["quantity"].partition(" [")
    unit = f" {unit.removesuffix(']')}" if unit else ""
    where = " ".join(part for part in (value["asset"], value["name"]) if part)
    return f"{where}: {name} {value['value']:.4g}{unit}, bound {value['bound']:g}"


def _fidelity(differences: Sequence[float]) -> str:
    """Tell how closely the replay followed the recording."""
    if not differences:
        return "fidelity: the history has nothing to compare with before the fault."
    for index, difference in enumerate(differences):
        if not difference <= FOLLOWS:
            return (
                f"fidelity: the replay leaves the recording at step {index + 2}, by {difference:.2g} rad or m; "
                f"at step {len(differences) + 1} by {differences[-1]:.2g}."
            )
    return (
        f"fidelity: the replay follows the recording to within {max(differences):.2g} rad and m, "
        f"up to step {len(differences) + 1}."
    )
