# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/demo.py``: record episodes of a task's scripted policy to one HDF5 file. Loads no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.commands.train import LOGS, experiment_name, show_log
from isaaclab_pc.demo_file import DemoFile
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.launch.child_process import ExitCode, run_child, run_script
from isaaclab_pc.launch.compose import Command, compose, parse_command, save_config, split_own
from isaaclab_pc.launch.platform import check_isaaclab, settle_platform
from isaaclab_pc.launch.run_record import CONFIG_NAME, make_folder
from isaaclab_pc.launch.task_names import scripted_tasks

__all__ = ["main"]

HELP = """\
Record demonstrations: episodes of a task's scripted policy, which acts on the simulator's own state, with the clouds
that a camera sees of them, in one HDF5 file.

  python scripts/demo.py task=<name> [key=value ...]

Every environment runs one episode from a seed, the successful ones are written, and the next seed follows, until the
file has enough. Ctrl-C stops; whole episodes stay. The same command goes on, with new seeds, until the number is
reached; a higher number adds to the file. A file of another task, or recorded under other settings, is refused.

Examples
  python scripts/demo.py task=lift                             100 episodes, to logs/demo/lift/demos.hdf5
  python scripts/demo.py task=lift episodes=500                400 more, to the same file
  python scripts/demo.py task=stack file=data/stack.hdf5       another file
  python scripts/demo.py task=push obs=depth num_envs=64       depth images, 64 environments at once
  python scripts/demo.py task=lift points.num_points=512 env.randomization=hard file=data/hard.hdf5
  python scripts/demo.py task=lift episodes=4 visualizer=viser watch it in a browser

What to record
  task                reach    short name; the task needs a scripted policy, as all of ours have
  episodes            100      episodes that the file shall have, those it has already included
  file                null     a path that ends in .hdf5; null: logs/demo/<task>/demos.hdf5
  keep                success  success: failed episodes are counted, not kept; all: they are kept, marked success=False
  obs                 points   points or depth, in float16, or state; the groups policy and critic are always there
  seed                42       seed of the first episodes; the following ones count on

Where and how
  num_envs            auto     environments at once; auto: 16 at most
  visualizer          null     viser or rerun (in a browser), newton_gl, newton_rtx or kit (a window): watch it
  device, robot, reward, physics*, points*, env.*     as in scripts/train.py --help

The file
  Isaac Lab's layout, which is robomimic's: data/demo_<i>/ with actions, obs/<group>, rewards, dones, states and
  initial_state. isaaclab_pc.demos has PyTorch datasets of it; docs/demos.md describes both.

Exit codes: 0; 2 for wrong settings; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
"""

OWN = ("episodes", "file", "keep")
KEEP = ("success", "all")
MAY_CHANGE = ("task", "obs", "seed", "num_envs", "device", "robot", "reward", "visualizer", "physics", "points")
EPISODES = 100
NUM_ENVS = 16


def main(argv: Sequence[str]) -> int:
    """Record until a file has enough episodes.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code: 0; 2 for wrong settings; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
    """
    return run_script(argv, HELP, run)


def run(argv: Sequence[str]) -> int:
    """Record what a command line names.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.

    Raises:
        ConfigError: A setting is wrong, or the file holds other demonstrations.
    """
    check_isaaclab()
    own, command = _split(argv)
    episodes, keep = _episodes(own), _keep(own)
    config = compose(command.settings)
    config["env_overrides"] = command.env
    _check_task(config["task"])
    settle_platform(config)
    if config["num_envs"] == "auto":
        config["num_envs"] = min(NUM_ENVS, episodes)
    parent = LOGS / "demo" / experiment_name(config)
    file = DemoFile(Path(own.get("file") or parent / "demos.hdf5"))
    with file.locked():
        file.check(config)
        try:
            code = _record(config, file, episodes, keep, parent)
        finally:
            file.merge()
    _report(file, episodes, code)
    return code


def _record(config: dict[str, Any], file: DemoFile, episodes: int, keep: str, parent: Path) -> int:
    """Let a child record what is missing; return the exit code."""
    there = file.progress()
    if there.episodes >= episodes:
        print(f"{file.path} has {there.episodes} episodes already; a higher number of episodes adds to them")
        return 0
    folder = make_folder(parent)
    save_config(folder / CONFIG_NAME, config)
    print(f"recording {config['task']} to {file.path}, {config['num_envs']} environments at once", flush=True)
    if there.attempts:
        print(f"going on: {there.episodes} episodes are there, {there.rate}", flush=True)
    code = run_child(child_command(folder / CONFIG_NAME, file.path, episodes, keep), log=folder / "worker.log")
    if code not in (0, ExitCode.REFUSED, ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        show_log(folder / "worker.log", code)
        return ExitCode.FAILED
    return code


def child_command(config: Path, file: Path, episodes: int, keep: str) -> list[str]:
    """Return the command line of the child that simulates.

    Args:
        config: The config file that it reads.
        file: Where the episodes go.
        episodes: How many the file shall have.
        keep: ``success`` or ``all``.
    """
    module = "isaaclab_pc.workers.demo"
    return [sys.executable, "-m", module, str(config), str(file), str(episodes), keep]


def _report(file: DemoFile, episodes: int, code: int) -> None:
    if not file.path.is_file():
        return
    progress, size = file.progress(), file.path.stat().st_size
    if code and progress.episodes < episodes:
        print(f"stopped at {progress.episodes} of {episodes} episodes; the same command goes on", flush=True)
    print(f"{progress.episodes} episodes, {progress.rate}, {size / 1e6:.1f} MB: {file.path}", flush=True)


def _split(argv: Sequence[str]) -> tuple[dict[str, str], Command]:
    """Tell what only a recording has from the settings of a run."""
    own, others = split_own(argv, OWN)
    for argument in others:
        key = argument.partition("=")[0]
        if "=" in argument and not argument.startswith("-") and not _may_change(key):
            raise ConfigError(f"{key} is not a setting of a recording: {closest(key, [*OWN, *MAY_CHANGE])} See --help.")
    command = parse_command(others)
    if command.flags:
        raise ConfigError(f"{command.flags[0]} has no use here; --help shows what has.")
    return own, command


def _may_change(key: str) -> bool:
    return key in MAY_CHANGE or key.startswith(("physics.", "points.", "env."))


def _episodes(own: dict[str, str]) -> int:
    text = own.get("episodes", str(EPISODES))
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"episodes={text}: expected a whole number of at least 1.")
    return int(text)


def _keep(own: dict[str, str]) -> str:
    keep = own.get("keep", KEEP[0])
    if keep not in KEEP:
        raise ConfigError(f"keep={keep}: expected one of {', '.join(KEEP)}.")
    return keep


def _check_task(task: str) -> None:
    scripted = scripted_tasks()
    if task not in scripted.values():
        raise ConfigError(f"task: {task} has no scripted policy; these have one: {', '.join(sorted(scripted))}.")
