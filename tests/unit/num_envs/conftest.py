# SPDX-License-Identifier: BSD-3-Clause
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.num_envs import fit
from tests.unit.num_envs.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Workshop(tmp_path)


@pytest.fixture
def set_free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_free(size: int) -> None:
        monkeypatch.setattr(fit, "free_host_memory", lambda: size)

    return set_free
