# SPDX-License-Identifier: BSD-3-Clause
"""The report of a run that has just ended, or the command that writes it."""

from pathlib import Path

from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import write_text_atomically


def report_at_end(folder: Path) -> None:
    """Write the page of a run that has just ended; a page that cannot be written is a warning."""
    try:
        # Here, so that a library which cannot be loaded costs the report alone.
        from isaaclab_pc.report.page import REPORT_NAME, run_page

        path = folder / REPORT_NAME
        write_text_atomically(path, run_page(folder))
    except Exception as error:
        # The training is safe; whatever is wrong with its page must not make it a run that failed.
        current().warn(f"warning: no report was written ({type(error).__name__}: {error})")
        report_later(folder)
    else:
        current().made("report", path)


def report_later(folder: Path) -> None:
    """Name the command that writes the report of a run."""
    current().decide(f"{command_line('report', folder)} writes its report")
