# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py --stability``: measure which physics settings a task is stable with. Loads no torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.launch.child_process import ExitCode, run_child, show_log, was_stopped
from isaaclab_pc.launch.command_line import Command
from isaaclab_pc.launch.run_folder import LOG_NAME, LOGS, make_folder
from isaaclab_pc.launch.run_record import versions
from isaaclab_pc.launch.task_names import short_name
from isaaclab_pc.launch.worker import JOB_NAME, StabilityJob, worker_command
from isaaclab_pc.physics.stability import CRASHED, Cell, cheapest, grid
from isaaclab_pc.program_name import command_line
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import table_console

__all__ = ["measure_stability"]

NUM_ENVS = 64
"""Environments of a measurement, unless the user says how many."""

RESULT_NAME = "stability.json"
PICTURE_NAME = "stability.png"


def measure_stability(command: Command, settings: RunSettings) -> int:
    """Measure a small grid of physics settings, one child process each, and show the cheapest stable one.

    Args:
        command: What the user gave.
        settings: The run's settings, device and physics backend chosen.

    Returns:
        The exit code: 0; 2 where a child refuses the settings; 128 + N after a signal N; 1 where a child
        fails. What was measured until then is shown and written.

    Raises:
        ConfigError: The settings leave nothing to measure.
    """
    settings = _complete(command, settings)
    given = settings.physics.model_dump(exclude={"backend", "preset"})
    grid_values = grid(settings.physics.backend, given)

    folder = make_folder(LOGS / "scale" / short_name(settings.task))
    count = f"{len(grid_values)} setting{'s' if len(grid_values) > 1 else ''}"
    print(f"{settings.task}: {count} on {settings.num_envs} environments, at one control rate")

    cells: list[Cell] = []
    try:
        return _measure_all(settings, grid_values, folder, cells)
    finally:
        # Also after Ctrl-C. Where nothing was measured, the folder is kept for its log only.
        if cells:
            _show(cells, command, settings, folder)
        elif not (folder / LOG_NAME).exists():
            shutil.rmtree(folder)


def _complete(command: Command, settings: RunSettings) -> RunSettings:
    """Refuse settings that contradict the measurement, and fill in those that were not given."""
    if settings.physics.preset is not None:
        raise ConfigError(
            "physics.preset has no use with --stability, which measures the settings that presets stand for: leave it "
            "out, or give single settings such as physics.position_iterations, which then stay."
        )
    if settings.guard.mode != "quarantine":
        raise ConfigError(
            f"guard.mode={settings.guard.mode} has no use with --stability, which counts the environments that the "
            "guard ends: leave it out."
        )

    values: dict[str, Any] = {"num_envs": NUM_ENVS if settings.num_envs == "auto" else settings.num_envs}
    if "eval.episodes" not in command.given:
        values["eval.episodes"] = values["num_envs"]
    if "obs" not in command.given:
        # Only physics is measured; a camera would take time.
        values["obs"] = "state"
    return settings.with_values(values)


def _measure_all(
    settings: RunSettings, grid_values: Sequence[Mapping[str, int]], folder: Path, cells: list[Cell]
) -> int:
    """Append a cell for each setting of the grid, and return the exit code."""
    log = folder / LOG_NAME
    for number, values in enumerate(grid_values, start=1):
        shown = " ".join(f"{name}={value}" for name, value in values.items()) or "as given"
        print(f"  [{number}/{len(grid_values)}] {shown}: ", end="", flush=True)

        result = folder / f"cell_{number}.json"
        command = worker_command(StabilityJob(settings, values, result), folder / JOB_NAME)
        code = run_child(command, log=log)
        if was_stopped(code):
            print("stopped")
            return code
        if code == ExitCode.REFUSED:
            return code
        if code == ExitCode.OK:
            cell = Cell.read(result)
        elif code > 128:
            known = Cell.read(result).settings if result.is_file() else values
            cell = Cell(known, note=f"{CRASHED} (exit code {code})")
        else:
            print("failed")
            show_log(log, code)
            return ExitCode.FAILED

        result.unlink(missing_ok=True)
        cells.append(cell)
        print(_summary(cell), flush=True)
    return ExitCode.OK


def _summary(cell: Cell) -> str:
    if not cell.env_steps:
        return cell.note

    success = f", expert's success {_percent(cell.success)}" if cell.success is not None else ""
    note = f", {cell.note}" if cell.note else ""
    return f"{_failures(cell)} failures per million steps{success}, {cell.env_steps_per_s:.0f} steps/s{note}"


def _failures(cell: Cell) -> str:
    if cell.failures_per_million is None:
        return ""
    if cell.upper_bound_per_million is not None:
        return f"0 (< {cell.upper_bound_per_million:.0f})"
    return f"{cell.failures_per_million:.0f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _show(cells: Sequence[Cell], command: Command, settings: RunSettings, folder: Path) -> None:
    """Print the table and the cheapest stable setting; write JSON and picture."""
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
    _print_table(cells, chosen, title)

    # Here, because matplotlib takes a while to load.
    from isaaclab_pc.viz.stability_plot import save_stability_plot

    save_stability_plot(cells, chosen, title, folder / PICTURE_NAME)
    current().made("result", folder / RESULT_NAME)
    current().made("picture", folder / PICTURE_NAME)
    if train_command is None:
        print("no setting is stable: all have failures, drop contacts, or lose too much of the expert's success")
    else:
        print(f"the cheapest stable setting:\n  {train_command}")


def _print_table(cells: Sequence[Cell], chosen: Cell | None, title: str) -> None:
    table = Table(title=title, title_justify="left")
    names = list(dict.fromkeys(name for cell in cells for name in cell.settings))
    columns = [*names, "env steps", "failures per million", "expert's success", "env steps/s", "s per 1000"]
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("")

    for cell in cells:
        values = [f"{cell.settings[name]:.6g}" if name in cell.settings else "" for name in names]
        speed = f"{cell.env_steps_per_s:.0f}" if cell.env_steps else ""
        cost = f"{cell.cost:.2f}" if cell.env_steps else ""
        note = cell.note or ("cheapest stable" if cell is chosen else "")
        table.add_row(*values, str(cell.env_steps), _failures(cell), _percent(cell.success), speed, cost, note)

    table_console(150).print(table)


def _train_command(command: Command, settings: RunSettings, cell: Cell) -> str:
    """Return the command that trains with a setting, and with what else the user gave."""
    measured_with = ("num_envs", "eval.episodes", "physics", "physics.backend")
    given = [text for text in command.settings if text.split("=", 1)[0] not in measured_with]
    backend = f"physics={settings.physics.backend}"
    return command_line("train", *given, *command.env, *command.agent, backend, *cell.overrides())
