# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/report.py``: write a run as one page of HTML, or compare several. Loads no torch."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from isaaclab_pc.cli.command_line import Takes, check_form, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.comparison import print_tables, write_numbers
from isaaclab_pc.commands.trained_policy import SELECTS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.page import REPORT_NAME, comparison_page, run_page
from isaaclab_pc.report.read_run import read_runs
from isaaclab_pc.run.find_checkpoint import newest_run
from isaaclab_pc.run.folder import LOGS, make_folder, writing
from isaaclab_pc.run.record import RECORD_NAME
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import write_text_atomically


class ReportSettings(ScriptSettings):
    """Settings of a report besides the names of runs."""

    run: str | None = None
    """latest: the newest run of task, runner and obs; or a run's folder, which may also be given without run=."""

    out: str | None = None
    """Folder to write to; null: the run's own, and logs/report/<time> where several are compared."""

    threshold: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9
    """Success rate for which a comparison shows the environment steps and the time that a run took to it."""


TAKES = Takes(ReportSettings, SELECTS)

HELP = f"""\
Write a run as one page of HTML, report.html: its settings, result, curves, speed, memory and health, and the commands
to go on. Training writes this page at its end; the command does so for any run, also while it trains.

With several runs, of any learning libraries, the page compares them: success with its 95 % interval, steps per second,
memory, what the guard ended, and the settings in which they differ. Tables are printed, with steps and time to a
success rate, and the numbers are written beside the page (runs.csv).

  python scripts/report.py <run> [<run> ...] [key=value ...]

A run is given by its folder, or as latest. The page is one file, which needs no network and no other file. What a
folder lacks, or what is not as it should be, is said on the page.

Examples
  python scripts/report.py logs/rsl_rl/reach/<time>               one run
  python scripts/report.py run=latest                             the newest run of reach
  python scripts/report.py run=latest task=lift runner=rl_games   the newest run of another task and library
  python scripts/report.py logs/*/lift/*                          compare all runs of lift, of all libraries
  python scripts/report.py logs/rsl_rl/lift/* threshold=0.95      which was first at 95 %?
  python scripts/report.py run=latest out=reports                 write it somewhere else

{settings_table(SELECTS.__contains__, ReportSettings)}

Steps and time to a success rate are those of the first evaluation that reached it, so they are as coarse as the
evaluations in training are (eval.best_share). Steps per second are medians over the iterations: of the environment
alone (env), with the policy's inference (inference), and with the update, too (total).

Exit codes: 0; 2 for a folder that holds no run, or a wrong setting; 5 for a full disk; 128 + N after a signal N; 1
otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Write the page; return the exit code, as in :data:`HELP`."""
    named, others = _split(argv, TAKES.names)
    folders = _runs(named)
    own, command = parse_script_command(others, TAKES)
    if own.run == "latest":
        asked = compose(command.settings)
        folders.append(newest_run(asked).folder)
    elif own.run is not None:
        folders.append(_folder(own.run))
    elif command.settings:
        raise ConfigError(f"{command.settings[0]} finds the latest run: give run=latest as well.")

    if not folders:
        raise ConfigError("Which run? Give its folder, logs/<runner>/<task>/<time>, or run=latest.")
    runs = read_runs(folders) if len(folders) > 1 else []
    page = comparison_page(runs) if runs else run_page(folders[0])

    out = folders[0]
    if own.out is not None:
        out = Path(own.out)
    elif runs:
        out = make_folder(LOGS / "report")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write_text_atomically(out / REPORT_NAME, page)
        if runs:
            write_numbers(runs, own.threshold, out)
    if runs:
        print_tables(runs, own.threshold)
    current().made("report", out / REPORT_NAME)
    return ExitCode.OK


def _split(argv: Sequence[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """Split a command line into folders, which may have an equals sign in their names, and settings or options."""
    folders: list[str] = []
    others: list[str] = []
    for argument in argv:
        check_form(argument, names)
        # Unlike Path.exists, this takes a name that is too long for a file.
        is_setting = argument.startswith("-") or ("=" in argument and not os.path.exists(argument))
        (others if is_setting else folders).append(argument)
    return folders, others


def _folder(text: str) -> Path:
    """Return the folder of a run, which is named by it or by the record in it."""
    path = Path(text)
    return path.parent if path.name == RECORD_NAME else path


def _runs(folders: Sequence[str]) -> list[Path]:
    """Return the folders of the runs that were named, each once; say which folders hold none."""
    # A pattern such as logs/*/lift/* also means the results of other scripts; where they are all, they are refused.
    others = [text for text in folders if os.path.isdir(text) and not os.path.isfile(os.path.join(text, RECORD_NAME))]
    runs = [text for text in folders if text not in others] or folders
    for text in folders:
        if text not in runs:
            current().warn(f"{text} is not a run's folder: passing over it")

    found = {folder.resolve(): folder for folder in map(_folder, runs)}
    return list(found.values())
