# SPDX-License-Identifier: BSD-3-Clause
"""A window in Isaac Sim with the tasks, the commands that start them, and the newest runs.

Kit imports this module where extension.toml is enabled, and makes a :class:`TaskWindow`. Nothing else may import it:
only Kit has ``omni``.
"""

from __future__ import annotations

from pathlib import Path

import omni.ext  # pyright: ignore[reportMissingImports]
import omni.kit.clipboard  # pyright: ignore[reportMissingImports]
import omni.ui as ui  # pyright: ignore[reportMissingImports]

from isaaclab_pc.launch.run_folder import LOGS
from isaaclab_pc.launch.run_record import RECORD_NAME
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.program_name import command_line
from isaaclab_pc.settings.base import choices_of
from isaaclab_pc.settings.run import SETTINGS

__all__ = ["TaskWindow", "newest_runs"]

TITLE = "Isaac Lab Point Clouds"
SCRIPTS = ("train", "view")
RUNS_SHOWN = 5


class TaskWindow(omni.ext.IExt):
    """The window, from when the extension is enabled until it is disabled."""

    def on_startup(self, ext_id: str) -> None:
        """Build the window.

        Args:
            ext_id: Kit's name of the extension, with its version.
        """
        self._tasks = list(our_tasks())
        self._commands: dict[str, ui.Label] = {}
        self._window = ui.Window(TITLE, width=640, height=320)
        with self._window.frame, ui.VStack(spacing=6, height=0):
            choice = ui.ComboBox(0, *self._tasks)
            self._chosen = choice.model.get_item_value_model()
            choice.model.add_item_changed_fn(lambda *_: self._show_task())
            for script in SCRIPTS:
                self._add_command(script)
            self._runs = ui.Label("", word_wrap=True)
            ui.Button("Look for runs again", clicked_fn=self._show_task)
        self._show_task()

    def on_shutdown(self) -> None:
        """Remove the window."""
        self._window.destroy()

    def _add_command(self, script: str) -> None:
        with ui.HStack(spacing=6, height=0):
            label = self._commands[script] = ui.Label("", word_wrap=True)
            ui.Button("Copy", width=60, clicked_fn=lambda: omni.kit.clipboard.copy(label.text))

    def _show_task(self) -> None:
        """Show the commands and the runs of the task that is chosen."""
        task = self._tasks[self._chosen.as_int]
        for script, label in self._commands.items():
            label.text = command_line(script, f"task={task}")

        logs = LOGS.absolute()
        runs = newest_runs(logs, task)
        self._runs.text = "\n".join(["newest runs:", *map(str, runs)]) if runs else f"no run of {task} below {logs} yet"


def newest_runs(logs: Path, task: str) -> list[Path]:
    """Return the folders of the newest trainings of a task, of all learning libraries, newest first.

    Args:
        logs: The folder of all runs.
        task: Short name of the task.
    """
    experiments = {task, *(f"{task}_{obs}" for obs in choices_of(SETTINGS["obs"].type))}
    runs = [path.parent for path in logs.glob(f"*/*/*/{RECORD_NAME}") if path.parent.parent.name in experiments]
    # Their names are the times at which they began.
    return sorted(runs, key=lambda run: run.name, reverse=True)[:RUNS_SHOWN]
