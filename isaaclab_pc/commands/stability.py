# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py --stability``: measure which physics settings a task is stable with. Loads no torch."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from isaaclab_pc.cli.command_line import Command
from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.stability import CRASHED, Cell, cheapest, grid
from isaaclab_pc.processes.child_process import ExitCode, run_child, show_log, was_stopped
from isaaclab_pc.run.folder import LOG_NAME, LOGS, make_folder
from isaaclab_pc.run.jobs import JOB_NAME, StabilityJob, worker_command
from isaaclab_pc.run.record import versions
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console
from isaaclab_pc.utils.files import write_text_atomically

NUM_ENVS = 64
"""Environments of a measurement, unless the user says how many."""

RESULT_NAME = "stability.json"
CELL_NAME = "cell.json"


def measure_stability(command: Command, settings: RunSettings) -> int:
    """Measure a small grid of physics settings, one child process each, and show the cheapest stable one.

    Device and physics backend of the settings are chosen. What was measured is shown, also where a child or a signal
    ends the measurement.

    Raises:
        ConfigError: The settings leave nothing to measure.
        SystemExit: A child was stopped, refused the settings or failed.
    """
    settings = _complete(command, settings)
    tried = grid(settings.physics.backend, settings.physics.model_dump(exclude={"backend", "preset"}))
    folder = make_folder(LOGS / "scale" / short_name(settings.task))
    screen = current()
    screen.say(f"{settings.task}: {len(tried)} settings on {settings.num_envs} environments, at one control rate")

    cells: list[Cell] = []
    try:
        for number, values in enumerate(tried, start=1):
            shown = " ".join(f"{name}={value}" for name, value in values.items()) or "as given"
            screen.begin("measure", f"[{number}/{len(tried)}] {shown}")
            cell = _measure(settings, folder, values)
            cells.append(cell)
            screen.say(f"  {cell.rate} failures per million steps" if cell.env_steps else f"  {cell.note}")
    finally:
        # Also after Ctrl-C. Where nothing was measured, the folder is kept for its log only.
        if cells:
            _show(cells, command, settings, folder)
        elif not (folder / LOG_NAME).exists():
            shutil.rmtree(folder)
    return ExitCode.OK


def _complete(command: Command, settings: RunSettings) -> RunSettings:
    """Refuse settings that contradict the measurement, and fill in those that were not given."""
    if settings.physics.preset is not None:
        raise ConfigError(
            f"physics.preset={settings.physics.preset}: --stability measures what presets stand for; leave it out."
        )
    if settings.guard.mode != "quarantine":
        raise ConfigError(
            f"guard.mode={settings.guard.mode}: --stability counts what the guard ends; leave guard.mode out."
        )
    num_envs = NUM_ENVS if settings.num_envs == "auto" else settings.num_envs
    # Only physics is measured; a camera would take time.
    defaults = {"eval.episodes": num_envs, "obs": "state"}
    missing = {key: value for key, value in defaults.items() if key not in command.given}
    return settings.with_values({"num_envs": num_envs, **missing})


def _measure(settings: RunSettings, folder: Path, values: Mapping[str, int]) -> Cell:
    """Measure one setting in a child; leave with its exit code where the measurement has to end."""
    result = folder / CELL_NAME
    result.unlink(missing_ok=True)
    code = run_child(worker_command(StabilityJob(settings, values, result), folder / JOB_NAME), log=folder / LOG_NAME)
    if code == ExitCode.OK:
        return Cell.read(result)
    if was_stopped(code) or code == ExitCode.REFUSED:
        raise SystemExit(code)
    if code > 128:
        # Before it builds anything, a child writes the settings that it was to measure.
        known = Cell.read(result).settings if result.is_file() else values
        return Cell(known, note=f"{CRASHED} (exit code {code})")
    show_log(folder / LOG_NAME, code)
    raise SystemExit(ExitCode.FAILED)


def _show(cells: Sequence[Cell], command: Command, settings: RunSettings, folder: Path) -> None:
    (folder / CELL_NAME).unlink(missing_ok=True)
    chosen = cheapest(cells)
    train_command = None if chosen is None else _train_command(command, settings, chosen)
    content = {
        "task": settings.task,
        "backend": settings.physics.backend,
        "device": settings.device,
        "num_envs": settings.num_envs,
        "versions": versions(),
        "cells": [cell.to_dict() for cell in cells],
        "cheapest": None if chosen is None else dict(chosen.settings),
        "command": train_command,
    }
    write_text_atomically(folder / RESULT_NAME, json.dumps(content, indent=1) + "\n")

    title = f"{settings.task}, {settings.physics.backend}, {settings.device}, {settings.num_envs} environments"
    names = list(dict.fromkeys(name for cell in cells for name in cell.settings))
    numbers = (*names, "env steps", "failures per million", "expert's success", "s per 1000")
    rows = [_row(cell, names, "cheapest stable" if cell is chosen else "") for cell in cells]
    table_console(150).print(make_table(title, (*numbers, ""), rows, numbers))
    screen = current()
    screen.made("result", folder / RESULT_NAME)
    if train_command is None:
        screen.decide(
            "no setting is stable: all have failures, drop contacts, or lose too much of the expert's success"
        )
    else:
        screen.decide(f"the cheapest stable setting:\n  {train_command}")


def _row(cell: Cell, names: Sequence[str], remark: str) -> list[str]:
    values = [f"{cell.settings[name]:.6g}" if name in cell.settings else "" for name in names]
    success = "" if cell.success is None else f"{cell.success:.0%}"
    cost = f"{cell.cost:.2f}" if cell.env_steps else ""
    return [*values, str(cell.env_steps), cell.rate, success, cost, cell.note or remark]


def _train_command(command: Command, settings: RunSettings, cell: Cell) -> str:
    measured_with = ("num_envs", "eval.episodes", "physics", "physics.backend")
    given = [text for text in command.settings if text.split("=", 1)[0] not in measured_with]
    measured = [f"physics.{name}={value:.6g}" for name, value in cell.settings.items()]
    backend = f"physics={settings.physics.backend}"
    return command_line("train", *given, *command.env, *command.agent, backend, *measured)
