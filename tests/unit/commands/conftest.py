# SPDX-License-Identifier: BSD-3-Clause
"""Runs with a fake worker behind the process boundary."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from isaaclab_pc.commands import train
from isaaclab_pc.run import jobs

FAKE_WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))

TRAINED = ("num_envs=8", "device=cpu", "physics=newton_mjwarp", "algorithm=distill", "seed=7", "env.a=1")
"""Settings of the run that `run` copies."""


def _enter(folder: Path, patch: pytest.MonkeyPatch, factory: pytest.TempPathFactory) -> Path:
    """Work in a folder whose runs use the fake worker, a profile cache of their own and compiled kernels."""
    kernels = factory.mktemp("kernels")
    (kernels / "1.0" / "wp_a").mkdir(parents=True)
    for name in ("a.cpu.o", "a.sm90.cubin"):
        (kernels / "1.0" / "wp_a" / name).touch()
    patch.setenv("WARP_CACHE_PATH", str(kernels))
    patch.setenv("XDG_CACHE_HOME", str(factory.mktemp("cache")))
    patch.chdir(folder)
    patch.setattr(jobs, "PROGRAM", FAKE_WORKER)
    patch.setattr(sys, "argv", ["train.py"])
    return folder


@pytest.fixture
def folder(tmp_path, tmp_path_factory, monkeypatch):
    """An empty working folder."""
    return _enter(tmp_path, monkeypatch, tmp_path_factory)


@pytest.fixture(scope="session")
def trained_logs(tmp_path_factory):
    """The logs of one finished run of reach."""
    with pytest.MonkeyPatch.context() as patch:
        folder = _enter(tmp_path_factory.mktemp("trained"), patch, tmp_path_factory)
        assert train.main(TRAINED) == 0
    return folder / "logs"


@pytest.fixture
def run(folder, runs, trained_logs):
    """A finished run of reach in the working folder."""
    shutil.copytree(trained_logs, folder / "logs")
    (run,) = runs()
    return run


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


@pytest.fixture
def refused(capfd):
    """Run a command that refuses its arguments in one line, which names all these words."""

    def run(command, arguments, words):
        capfd.readouterr()
        assert command.main(arguments) == 2
        error = capfd.readouterr().err
        assert error.startswith("error: ")
        assert (error.count("\n"), "Traceback" in error) == (1, False), error
        assert [word for word in words.split() if word not in error] == [], error

    return run
