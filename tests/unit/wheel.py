# SPDX-License-Identifier: BSD-3-Clause
"""What the package is made of, and the wheel that it gives."""

import shutil
import subprocess
import sys
from pathlib import Path

import uv

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("setup.py", "pyproject.toml", "MANIFEST.in", "extension.toml", "constraints.txt"),
    *("LICENSE", "README.md", "CHANGELOG.md", "isaaclab_pc", "tasks", "agents"),
)


def build_wheel(source: Path) -> Path:
    """Build the wheel from the sdist that a fresh checkout gives, in an empty folder."""
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, source / name)
    dist = source / "dist"
    build = (uv.find_uv_bin(), "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", dist)
    sdist = run(*build, "--sdist", source, cwd=source)
    assert sdist.returncode == 0, sdist.stderr
    built = run(*build, "--wheel", next(dist.glob("*.tar.gz")), cwd=source)
    assert built.returncode == 0, built.stderr
    (path,) = dist.glob("*.whl")
    return path


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed, whether it succeeded or not."""
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
