# SPDX-License-Identifier: BSD-3-Clause
"""Jobs: what a worker is told is what it reads; and how the parent runs it."""

import sys
from pathlib import Path

import pytest

from isaaclab_pc.run import jobs
from isaaclab_pc.run.jobs import (
    JOBS,
    CheckJob,
    DemoJob,
    ExportJob,
    PlayJob,
    ProbeJob,
    ReplayJob,
    StabilityJob,
    TrainJob,
    ViewJob,
    launch_worker,
    worker_command,
)
from isaaclab_pc.settings import RunSettings

SETTINGS = RunSettings(
    num_envs=8, visualizer=["viser", "newton_gl"], env_overrides=["env.a='x'"], device="cuda:1"
).with_values({"physics.dt": 0.005, "points.num_points": 64, "scaling.budget": "4GiB"})
A, B = Path("a.pt"), Path("b.json")
EXAMPLES = [
    TrainJob(SETTINGS),
    TrainJob(SETTINGS, A),
    PlayJob(SETTINGS, None),
    ExportJob(SETTINGS, A),
    ProbeJob(SETTINGS.with_values({"num_envs": "auto"}), 8, B),
    CheckJob((SETTINGS, RunSettings()), B),
    DemoJob(SETTINGS, A, 3, "all", True, 0.2),
    ReplayJob(SETTINGS, A, 1, B),
    StabilityJob(SETTINGS, {"decimation": 2}, B),
    ViewJob(SETTINGS, policy="random", record=Path("a.mp4"), steps=5, port=8080),
]


@pytest.mark.parametrize("job", EXAMPLES)
def test_a_worker_reads_what_it_was_told(job, tmp_path):
    *program, mode, path = worker_command(job, tmp_path / "job.json")
    assert program == [sys.executable, "-P", "-m", "isaaclab_pc.workers"]
    assert JOBS[mode].read(Path(path)) == job


def test_every_kind_of_job_has_an_example():
    assert {type(job) for job in EXAMPLES} == set(JOBS.values())


@pytest.mark.parametrize(("code", "expected", "shows"), [(0, 0, False), (2, 2, False), (143, 143, False), (7, 1, True)])
def test_only_a_failure_shows_the_log(monkeypatch, capsys, tmp_path, code, expected, shows):
    program = f"import sys; open('{tmp_path}/worker.log', 'a').write('it broke'); sys.exit({code})"
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", program))
    assert launch_worker(PlayJob(SETTINGS, None), tmp_path) == expected
    assert ("it broke" in capsys.readouterr().err) == shows
