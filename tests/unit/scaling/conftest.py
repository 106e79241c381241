# SPDX-License-Identifier: BSD-3-Clause
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.scaling import fit
from isaaclab_pc.scaling.memory import FreeMemory
from tests.unit.scaling.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Workshop(tmp_path)


@pytest.fixture
def set_free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    module = sys.modules[fit.__module__]  # the function hides the module of the same name

    def set_free(size: int) -> None:
        monkeypatch.setattr(module, "free_host_memory", lambda: FreeMemory(size, "memory"))

    return set_free
