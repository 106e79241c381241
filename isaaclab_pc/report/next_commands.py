# SPDX-License-Identifier: BSD-3-Clause
"""Commands to go on with after a run: evaluate, watch, resume, repeat, compare."""

from __future__ import annotations

from typing import NamedTuple

from isaaclab_pc.launch.command_line import keys_of, override_value
from isaaclab_pc.launch.task_names import short_name
from isaaclab_pc.program_name import command_line
from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.run import SETTINGS

__all__ = ["Command", "commands", "scale_command"]

_NEED_MEMORY = (
    *("runner", "algorithm", "teacher", "init", "agent", "obs", "robot", "replay_samples", "minibatch_size", "device"),
    *("physics.", "points.", "env.", "agent."),
)
"""Settings, and groups of them, on which the memory of a run depends."""


class Command(NamedTuple):
    """A command to go on with."""

    purpose: str
    text: str


def commands(run: RunFacts) -> list[Command]:
    """Return the commands to go on with."""
    data = run.data
    folder = run.folder
    found = []
    best, latest = data.checkpoints.best, data.checkpoints.latest
    if latest is not None:
        found.append(Command("Evaluate the newest policy", command_line("play", f"resume={folder}")))
        if best is not None and best.path != latest.path:
            found.append(Command("Evaluate the best one", command_line("play", f"resume={folder / best.path}")))
        found.append(Command("Watch it in a browser", command_line("play", f"resume={folder}", "visualizer=viser")))
        found.append(_resume_command(run))
    if (again := _again(run)) is not None:
        found.append(Command("The same settings with another seed", again))
    found.append(Command("Compare it with another run", f"{command_line('report', folder)} <other run>"))
    found.append(Command("This page again", command_line("report", folder)))
    return found


def _resume_command(run: RunFacts) -> Command:
    data = run.data
    if data.status == "completed" and data.max_iterations is not None:
        more = command_line("train", f"resume={run.folder}", f"max_iterations={2 * data.max_iterations}")
        return Command("Train it longer", more)
    harder = [f"physics.{name}={value!r}" for name, value in (data.harder_physics or {}).items()]
    purpose = "Go on, with harder physics" if harder else "Go on"
    return Command(purpose, command_line("train", f"resume={run.folder}", *harder))


def _again(run: RunFacts) -> str | None:
    """Return the command that trains with the same settings and the next seed."""
    if run.settings is None:
        return None
    of_this_run = {"task", "resume", "node_rank", "seed"}
    given = {key: value for key, value in _given(run.settings).items() if key not in of_this_run}
    settings = {"task": short_name(run.settings.task), **given, "seed": str(run.settings.seed + 1)}
    return command_line("train", *(f"{key}={value}" for key, value in settings.items()))


def scale_command(run: RunFacts) -> str:
    """Return the command that measures what the run's memory is made of."""
    needs_memory = keys_of(*_NEED_MEMORY)
    given = _given(run.settings) if run.settings is not None else {}
    settings = {"task": short_name(run.data.task), **{key: given[key] for key in given if needs_memory(key)}}
    if isinstance(run.data.num_envs, int):
        settings["num_envs"] = str(run.data.num_envs)
    return command_line("scale", *(f"{key}={value}" for key, value in settings.items()))


def _given(settings: RunSettings) -> dict[str, str]:
    """Return what differs from the defaults, as a command line has it."""
    values = settings.flat()
    defaults = RunSettings().flat()
    given = {key: override_value(values[key]) for key in SETTINGS if values[key] != defaults[key]}
    for override in (*settings.env_overrides, *settings.agent_overrides):
        key, _, value = override.partition("=")
        given[key] = value
    return given
