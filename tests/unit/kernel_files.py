# SPDX-License-Identifier: BSD-3-Clause
"""A cache of compiled kernels, as Warp leaves it."""

from importlib import metadata
from pathlib import Path

import pytest

WARP = metadata.version("warp-lang")


def make_shared_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a shared cache with one module; return its folder."""
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "shared"))
    folder = tmp_path / "shared" / WARP
    write(folder / "wp_old_1a" / "wp_old_1a.sm80.cubin", "old")
    write(folder / "wp_old_1a" / "wp_old_1a.meta", "{}")
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }
