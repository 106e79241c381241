# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/report.py``: write a run as one page of HTML, or compare several. Loads no torch."""

from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.cli.command_line import Takes, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.named_run import named_run, split_folders
from isaaclab_pc.commands.trained_policy import SELECTS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.page import MAX_RUNS, REPORT_NAME, comparison_page, run_page
from isaaclab_pc.run.find_checkpoint import newest_run
from isaaclab_pc.run.folder import LOGS, experiment_name, make_folder, writing
from isaaclab_pc.settings.base import ScriptSettings, shown
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import write_text_atomically

LATEST = "latest"
OR_LATEST = "run=latest"


class ReportSettings(ScriptSettings):
    """Settings of a report besides the names of runs."""

    run: str | None = None
    """latest: the newest run of task, runner and obs; or a run's folder, which may also be given without run=."""

    out: str | None = None
    """The file to write; null: report.html in the run's folder, and logs/report/<time> where several are compared."""


TAKES = Takes(ReportSettings, SELECTS)

HELP = f"""\
Write a run as one page of HTML: its settings, result, curves, speed, memory and health, and the commands to go on. With
several runs, the page compares them. Training writes this page at its end; the command does so for any run, also while
it trains.

  python scripts/report.py <run> [<run> ...] [key=value ...]

A run is given by its folder, or as latest. The page is one file, which needs no network and no other file. What a
folder lacks, or what is not as it should be, is said on the page.

Examples
  python scripts/report.py logs/rsl_rl/reach/<time>               one run
  python scripts/report.py run=latest                             the newest run of reach
  python scripts/report.py run=latest task=lift runner=rl_games   the newest run of another task and library
  python scripts/report.py logs/rsl_rl/lift/*                     compare runs, {MAX_RUNS} at most
  python scripts/report.py run=latest out=report.html             write it somewhere else

{settings_table(SELECTS.__contains__, ReportSettings)}

Exit codes: 0; 2 for a folder that holds no run, or a wrong setting; 5 for a full disk; 128 + N after a signal N; 1
otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Write the page; return the exit code, as in :data:`HELP`."""
    named, others = split_folders(argv, TAKES.names)
    folders = [named_run(text, OR_LATEST) for text in named]
    own, command = parse_script_command(others, ReportSettings, SELECTS)
    if own.run == LATEST:
        asked = compose(command.settings)
        folders.append(newest_run(LOGS, asked.runner, experiment_name(asked)).folder)
    elif own.run is not None:
        folders.append(named_run(own.run, OR_LATEST))
    elif command.settings:
        raise ConfigError(f"{command.settings[0]} finds the latest run: give run=latest as well.")

    if not folders:
        raise ConfigError("Which run? Give its folder, logs/<runner>/<task>/<time>, or run=latest.")
    if len(folders) > MAX_RUNS:
        raise ConfigError(f"{len(folders)} runs are more than one page shows: give at most {MAX_RUNS}.")
    if own.out is not None:
        _check_file(Path(own.out))

    page = run_page(folders[0]) if len(folders) == 1 else comparison_page(folders)
    if own.out is not None:
        out = Path(own.out)
    else:
        out = (folders[0] if len(folders) == 1 else make_folder(LOGS / "report")) / REPORT_NAME
    with writing(out.parent):
        write_text_atomically(out, page)
    current().made("report", out)
    return ExitCode.OK


def _check_file(out: Path) -> None:
    """Refuse a file that cannot be written, before anything is drawn."""
    try:
        if out.is_dir():
            raise ConfigError(f"out={out} is a folder: give the name of a file.")
        if not out.parent.is_dir():
            raise ConfigError(f"out={out}: there is no folder {out.parent}.")
    except OSError as error:
        raise ConfigError(f"out={shown(str(out))}: {error.strerror}.") from None
