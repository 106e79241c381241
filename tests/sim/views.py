# SPDX-License-Identifier: BSD-3-Clause
"""A view from the settings to its end, for tests that watch it."""

import io
import socket
from pathlib import Path
from typing import Literal

from isaaclab_pc.launch.worker import ViewJob
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Lines, use
from isaaclab_pc.workers.view import view


def view_on_a_taken_port(
    settings: RunSettings, folder: Path, visualizer: Literal["viser", "rerun"]
) -> tuple[int, int, str]:
    """Show environments, and return the exit code, the port that was asked for, and what was printed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stream = io.StringIO()
        with use(Lines(stream)) as screen:
            code = view(ViewJob(settings, visualizer=visualizer, port=port), folder, screen)
    return code, port, stream.getvalue()
