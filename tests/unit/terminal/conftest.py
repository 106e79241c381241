# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.terminal.durations import Durations


@pytest.fixture
def kept(tmp_path):
    return Durations(tmp_path / "cache")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Keep the times of the tests' phases out of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
