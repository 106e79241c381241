# SPDX-License-Identifier: BSD-3-Clause
"""Converts demonstrations from and to LeRobot datasets, by a script with an environment of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.terminal.screen import current

CONVERTER = Path(__file__).with_name("lerobot_dataset.py")
"""Script that writes a file of demonstrations as a LeRobot dataset, or a dataset as a file."""


def conversion(asked: str, source: Path, out: Path) -> list[str]:
    """Return the command that converts a file or a dataset.

    Raises:
        ConfigError: uv is not there, which the setting ``asked`` needs.
    """
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        raise ConfigError(f"{asked} needs uv, which makes an environment with lerobot: pip install uv.")
    return [uv, "run", "--quiet", "--python", sys.executable, "--script", str(CONVERTER), str(source), str(out)]


def convert(command: list[str]) -> int:
    """Run a conversion with its progress on the screen; return its exit code."""
    # Of no use unless it fails: FFmpeg and lerobot tell each of their steps.
    with tempfile.TemporaryFile("w+") as details:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=details, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                current().say(line.rstrip())
        details.seek(0)
        errors = details.read()
    if child.returncode:
        current().warn(errors.strip())
    return child.returncode
