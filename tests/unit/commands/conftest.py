# SPDX-License-Identifier: BSD-3-Clause
"""Runs with a fake worker behind the process boundary."""

import json
import sys
from pathlib import Path

import pytest

from isaaclab_pc.run import jobs

FAKE_WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


@pytest.fixture
def folder(tmp_path, tmp_path_factory, monkeypatch):
    """An empty working folder, in which runs use the fake worker, a profile cache of their own and compiled kernels."""
    kernels = tmp_path_factory.mktemp("kernels")
    (kernels / "1.0" / "wp_a").mkdir(parents=True)
    for name in ("a.cpu.o", "a.sm90.cubin"):
        (kernels / "1.0" / "wp_a" / name).touch()
    monkeypatch.setenv("WARP_CACHE_PATH", str(kernels))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(jobs, "PROGRAM", FAKE_WORKER)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    return tmp_path


@pytest.fixture
def runs(folder):
    """List the folders of the runs of reach so far."""
    return lambda: sorted((folder / "logs" / "rsl_rl" / "reach").iterdir())


@pytest.fixture
def seen():
    """Tell what the worker saw: its arguments and its job."""
    return lambda run: json.loads((run / "seen.json").read_text(encoding="utf-8"))


@pytest.fixture
def record():
    """Read a run's record."""
    return lambda run: json.loads((run / "run.json").read_text(encoding="utf-8"))
