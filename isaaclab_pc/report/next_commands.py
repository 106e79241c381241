# SPDX-License-Identifier: BSD-3-Clause
"""Commands to go on with after a run: evaluate, watch, resume, repeat, compare."""

from __future__ import annotations

from isaaclab_pc.cli.command_line import keys_of
from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.report.run_tables import setting_rows
from isaaclab_pc.terminal.program_name import command_line

__all__ = ["commands", "scale_command"]

_NEED_MEMORY = (
    *("runner", "algorithm", "teacher", "init", "agent", "obs", "robot", "replay_samples", "minibatch_size", "device"),
    *("physics.", "points.", "env.", "agent."),
)
"""Settings, and groups of them, on which the memory of a run depends."""

_OF_ONE_RUN = ("task", "resume", "node_rank", "seed")
"""Settings that another run with the same settings does not take over."""


def commands(run: RunFacts) -> list[tuple[str, str]]:
    """Return the commands to go on with, each behind its purpose."""
    data, folder = run.data, run.folder
    best, latest = data.checkpoints.best, data.checkpoints.latest
    found = []
    if latest is not None:
        found.append(("Evaluate the newest policy", command_line("play", f"resume={folder}")))
        if best is not None and best.path != latest.path:
            found.append(("Evaluate the best one", command_line("play", f"resume={folder / best.path}")))
        found.append(("Watch it in a browser", command_line("play", f"resume={folder}", "visualizer=viser")))
        found.append(_resume_command(run))
    if run.settings is not None:
        given = {key: value for key, value in _given(run).items() if key not in _OF_ONE_RUN}
        settings = {"task": short_name(run.settings.task), **given, "seed": str(run.settings.seed + 1)}
        found.append(("The same settings with another seed", _with("train", settings)))
    found.append(("Compare it with another run", f"{command_line('report', folder)} <other run>"))
    found.append(("This page again", command_line("report", folder)))
    return found


def _resume_command(run: RunFacts) -> tuple[str, str]:
    data = run.data
    if data.status == "completed" and data.max_iterations is not None:
        more = f"max_iterations={2 * data.max_iterations}"
        return "Train it longer", command_line("train", f"resume={run.folder}", more)
    harder = [f"physics.{name}={value!r}" for name, value in (data.harder_physics or {}).items()]
    purpose = "Go on, with harder physics" if harder else "Go on"
    return purpose, command_line("train", f"resume={run.folder}", *harder)


def scale_command(run: RunFacts) -> str:
    """Return the command that measures what the run's memory is made of."""
    needs_memory = keys_of(*_NEED_MEMORY)
    given = {key: value for key, value in _given(run).items() if needs_memory(key)}
    size = {"num_envs": str(run.data.num_envs)} if isinstance(run.data.num_envs, int) else {}
    return _with("scale", {"task": short_name(run.data.task), **given, **size})


def _given(run: RunFacts) -> dict[str, str]:
    """Return the settings that differ from their defaults."""
    return {row.key: row.value for row in setting_rows(run.settings) if row.is_changed}


def _with(script: str, settings: dict[str, str]) -> str:
    return command_line(script, *(f"{key}={value}" for key, value in settings.items()))
