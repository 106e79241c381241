# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/demo.py``: record episodes of a task's expert to one HDF5 file. Loads no torch."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from isaaclab_pc.cli.command_line import Takes, keys_of, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.task_names import require_expert
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.demos.convert import conversion, convert
from isaaclab_pc.demos.demo_file import DemoFile
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import LOGS, experiment_name, make_folder
from isaaclab_pc.run.jobs import DemoJob, launch_worker
from isaaclab_pc.run.kernel_cache import begin_build
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current


class DemoSettings(ScriptSettings):
    """Settings of a recording besides those of a run."""

    episodes: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    """Number of episodes to reach, those that are in the file already included."""

    file: str | None = None
    """A path that ends in .hdf5; null: logs/demo/<task>/demos.hdf5."""

    keep: Literal["success", "all"] = "success"
    """success: failed episodes are counted but not kept; all: they are kept and marked success=False."""

    disturbances: Annotated[float, Field(ge=0.0, le=0.5)] = 0.0
    """Share of the steps in an episode's first half that execute random actions. The expert's are recorded all the
    same, so a policy that learns from the file sees the way back."""

    depth: bool = False
    """Record the cameras' depth maps as well, in millimetres; they are rendered then, which takes most of the time."""

    format: Literal["hdf5", "lerobot"] = "hdf5"
    """lerobot: the file is written as a LeRobotDataset v3 as well, once it has enough episodes."""

    out: str | None = None
    """Folder of the LeRobot dataset, which must not exist; null: lerobot beside the file."""


MAY_CHANGE = (
    *("task", "obs", "seed", "num_envs", "device", "robot", "reward", "visualizer", "host", "force"),
    *("physics.", "points.", "env."),
)
"""Settings of a run, and groups of them, that a recording takes."""

TAKES = Takes(DemoSettings, MAY_CHANGE)

NUM_ENVS = 16
"""Environments of ``num_envs=auto``, at most."""

NUM_ENVS_WITH_DEPTH = 4
"""The same where depth maps are recorded: those of an episode are kept in memory."""

_OTHERWISE = {
    "num_envs": (
        "auto",
        f"Environments at once; auto is {NUM_ENVS}, with depth=true {NUM_ENVS_WITH_DEPTH}, or as many as episodes.",
    )
}
"""A setting that means something else than in training."""

HELP = f"""\
Record demonstrations: episodes of a task's expert, which acts on the simulator's own state, with the clouds
that a camera sees of them, in one HDF5 file.

  python scripts/demo.py task=<name> [key=value ...]

Every environment runs one episode from a seed, the successful ones are written, and the next seed follows, until the
file has enough. Ctrl-C stops; whole episodes stay. The same command goes on, with new seeds, until the number is
reached; a higher number adds to the file. A file of another task, or recorded under other settings, is refused.

Examples
  python scripts/demo.py task=lift                             100 episodes, to logs/demo/lift/demos.hdf5
  python scripts/demo.py task=lift episodes=500                400 more, to the same file
  python scripts/demo.py task=stack disturbances=0.3           with random actions, from which the expert finds back
  python scripts/demo.py task=stack file=data/stack.hdf5       another file
  python scripts/demo.py task=push obs=depth num_envs=64       depth images, 64 environments at once
  python scripts/demo.py task=lift points.num_points=512 env.randomization=hard file=data/hard.hdf5
  python scripts/demo.py task=lift episodes=4 visualizer=viser watch it in a browser
  python scripts/demo.py task=lift format=lerobot depth=true   also as a LeRobot dataset, with depth maps

{settings_table(keys_of(*MAY_CHANGE), DemoSettings, _OTHERWISE)}

env.* is as in scripts/train.py. A task needs an expert, as all of ours have.

The file
  Isaac Lab's layout, which is robomimic's: data/demo_<i>/ with actions, obs/<group>, rewards, dones, states and
  initial_state. docs/demos.md describes it, how to read it, and what format=lerobot writes beside it.

Exit codes: 0; 2 for wrong settings; 128 + N after a signal N; 1 otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Record until a file has enough episodes; return the exit code."""
    own, command = parse_script_command(argv, TAKES)
    settings = compose(command.settings, command.env)
    require_expert(settings.task, "task")
    if own.depth:
        settings = _with_images(settings)
    settings = prepare(settings)
    if settings.num_envs == "auto":
        settings = settings.with_values({"num_envs": min(NUM_ENVS_WITH_DEPTH if own.depth else NUM_ENVS, own.episodes)})

    parent = LOGS / "demo" / experiment_name(settings)
    file = DemoFile(Path(own.file or parent / "demos.hdf5"))
    to_lerobot = _conversion(file.path, own.out) if own.format == "lerobot" else None
    with file.locked():
        file.check(settings)
        try:
            code = _record(settings, file, own, parent)
        finally:
            # Also after a crash of the child: every wave that it left is complete.
            file.merge()

    _report(file, own.episodes, code)
    if to_lerobot is None or code != ExitCode.OK:
        return code
    current().say("writing the LeRobot dataset; its environment takes minutes to make the first time")
    code = convert(to_lerobot)
    if code:
        current().warn(f"the HDF5 file is whole; to convert it: {shlex.join(to_lerobot)}")
    return code


def _conversion(path: Path, out: str | None) -> list[str]:
    """Return the command that writes a LeRobot dataset of a file."""
    folder = Path(out) if out else path.parent / "lerobot"
    if folder.exists():
        raise ConfigError(f"out={folder} is there already: give another folder, or remove it.")
    return conversion("format=lerobot", path, folder)


def _with_images(settings: RunSettings) -> RunSettings:
    """Let the clouds be made of images, which are recorded with them."""
    points = settings.points
    if settings.obs != "points" or points.source == "rays" or points.realism not in (None, "none"):
        raise ConfigError(
            f"depth=true with obs={settings.obs}, points.source={points.source or 'auto'} and "
            f"points.realism={points.realism or 'none'}: it records the images that clouds without errors are made of. "
            "Use obs=points, points.source=image and points.realism=none."
        )
    return settings.with_values({"points.source": "image"})


def _record(settings: RunSettings, file: DemoFile, own: DemoSettings, parent: Path) -> int:
    """Let a child record the missing episodes; return the exit code."""
    progress = file.progress()
    if progress.episodes >= own.episodes:
        current().decide(
            f"{file.path} has {progress.episodes} episodes already; a higher number of episodes adds to them"
        )
        return ExitCode.OK

    current().say(f"recording {settings.task} to {file.path}, {settings.num_envs} environments at once")
    if progress.attempts:
        current().say(f"going on: {progress.episodes} episodes are there, {progress.rate}")
    begin_build(settings)
    job = DemoJob(settings, file.path, own.episodes, own.keep, own.depth, own.disturbances)
    return launch_worker(job, make_folder(parent))


def _report(file: DemoFile, episodes: int, code: int) -> None:
    if not file.path.is_file():
        return

    progress = file.progress()
    size = file.path.stat().st_size
    if code and progress.episodes < episodes:
        current().warn(f"stopped at {progress.episodes} of {episodes} episodes; the same command goes on")
    current().made("demos", file.path, f"{progress.episodes} episodes, {progress.rate}, {size / 1e6:.1f} MB")
