# SPDX-License-Identifier: BSD-3-Clause
"""The child process: what the user sees of it, and how it ends."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.run.jobs import JOBS, PlayJob, worker_command
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import __main__ as workers

SETTINGS = RunSettings(num_envs=4, device="cpu")

DRIVER = """
import os, signal, sys
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.workers import __main__ as workers
def work(job, folder, screen):
    {behaviour}
workers.work = work
sys.exit(workers.main(sys.argv[1:]))
"""
"""A worker that behaves so in place of its work."""


@pytest.mark.parametrize(
    ("behaviour", "code", "shown", "logged"),
    [
        ("raise ConfigError('no such field')", 2, "error: no such field\n", ""),
        ("raise RuntimeError('it broke')", 1, "", "RuntimeError: it broke"),
        ("raise SystemExit(1)", 1, "", ""),
        ("signal.raise_signal(signal.SIGINT)", 130, "", ""),
        ("print('chatter'); os.system('echo native'); screen.say('progress'); return 0", 0, "progress\n", "native"),
        ("current().say('watch here'); return 0", 0, "watch here\n", ""),
    ],
)
def test_the_user_sees_progress_and_errors_while_chatter_goes_to_the_log(tmp_path, behaviour, code, shown, logged):
    job = worker_command(PlayJob(SETTINGS, None), tmp_path / "job.json")[-2:]
    command = [sys.executable, "-c", DRIVER.format(behaviour=behaviour), *job]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, shown, "")
    assert logged in (tmp_path / "worker.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", JOBS.values())
def test_every_job_has_a_worker(kind, monkeypatch):
    worked = []

    class Module:
        def __getattr__(self, name):
            return lambda *given: worked.append(given) or 0

    module: Any = Module()
    for name in JOBS:
        monkeypatch.setitem(sys.modules, f"isaaclab_pc.workers.{name}", module)
    monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
    job = object.__new__(kind)
    for field in ("settings", "values", "result"):
        object.__setattr__(job, field, None)
    assert workers.work(job, Path(), None) == 0  # pyright: ignore[reportArgumentType]
    assert len(worked) == 1
