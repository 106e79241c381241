# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of the worker, the child process that simulates, and how it is started. Loads no torch.

A job is one JSON file, and all that a worker is told: ``python -m isaaclab_pc.workers <mode> <folder>/job.json``.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from isaaclab_pc.processes.child_process import ExitCode, run_child, show_log, was_stopped
from isaaclab_pc.run.folder import LOG_NAME, writing
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.utils.json_record import Count, JsonRecord, Size

JOB_NAME = "job.json"
"""The job's file in the folder that its worker writes to."""

# -P: a module that lies in the working directory is not imported in place of an installed one.
PROGRAM: tuple[str, ...] = (sys.executable, "-P", "-m", "isaaclab_pc.workers")
"""Starts the worker."""


@dataclass(frozen=True)
class Job(JsonRecord):
    """Work of a child process."""

    mode: ClassVar[str]
    """The job's name, from that of its class: ``TrainJob`` is ``train``."""

    has_log: ClassVar[bool] = True
    """Whether output that is not for the user goes to a log beside the job; the parent keeps all of it otherwise."""

    def __init_subclass__(cls) -> None:
        """Name the job."""
        cls.mode = cls.__name__.removesuffix("Job").lower()


@dataclass(frozen=True)
class _RunJob(Job):
    settings: RunSettings
    """Settings to act under; ``num_envs`` is a number, but in a probe."""


@dataclass(frozen=True)
class TrainJob(_RunJob):
    """Train a run to its end, in its folder."""

    checkpoint: Path | None = None
    """Where to go on; None for a new run."""


@dataclass(frozen=True)
class PlayJob(_RunJob):
    """Evaluate a policy, and write ``result.json``."""

    checkpoint: Path | None
    """The policy; None: the task's expert."""


@dataclass(frozen=True)
class ExportJob(_RunJob):
    """Write a policy for programs without a simulator."""

    checkpoint: Path
    """The policy."""


@dataclass(frozen=True)
class ProbeJob(_RunJob):
    """Try a number of environments."""

    has_log = False

    num_envs: Size
    """Environments to try."""

    result: Path
    """Where the :class:`~isaaclab_pc.num_envs.trial.Trial` goes."""


@dataclass(frozen=True)
class CheckJob(Job):
    """Check runs against the configs of their tasks and agents."""

    runs: tuple[RunSettings, ...]
    """Settings of the runs."""

    result: Path
    """Where the numbers of iterations that the runs have go: a list in JSON, each number once."""


@dataclass(frozen=True)
class DemoJob(_RunJob):
    """Record episodes of a task's expert."""

    file: Path
    """The file, checked and locked by the parent."""

    episodes: Size
    """Number of episodes to reach, those that are in the file already included."""

    keep: Literal["success", "all"]
    """Episodes that are kept."""

    with_depth: bool
    """Whether the depth maps that the clouds are made of are recorded."""

    disturbances: float = 0.0
    """Share of the steps in an episode's first half that execute random actions."""


@dataclass(frozen=True)
class ReplayJob(_RunJob):
    """Replay one environment of a fault dump, under its recorded settings."""

    dump: Path
    """The dump."""

    position: Count
    """Index of the environment in the dump."""

    result: Path
    """Where the :class:`~isaaclab_pc.faults.replay_result.ReplayResult` goes."""


@dataclass(frozen=True)
class StabilityJob(_RunJob):
    """Measure one setting of physics."""

    values: Mapping[str, int]
    """Fields of ``physics`` that differ from the settings."""

    result: Path
    """Where the :class:`~isaaclab_pc.physics.stability.Cell` goes."""


@dataclass(frozen=True)
class ViewJob(_RunJob):
    """Show environments in a browser, or film them."""

    policy: str | None = None
    """``random``, ``zero``, ``expert`` or ``keyboard``; None: the checkpoint, or without one the expert where there is
    one, else random."""

    checkpoint: Path | None = None
    """A policy that was trained under the settings."""

    record: Path | None = None
    """A film, in the place of a page."""

    steps: Size | None = None
    """Steps after which it ends; None: never, or with a film the longest episode."""

    port: Size | None = None
    """Port of the page; None: viser's own."""


JOBS: dict[str, type[Job]] = {
    job.mode: job
    for job in (TrainJob, PlayJob, ExportJob, ProbeJob, CheckJob, DemoJob, ReplayJob, StabilityJob, ViewJob)
}
"""Every kind of job by its mode."""


def worker_command(job: Job, path: Path) -> list[str]:
    """Write a job's file, beside which its worker writes; return the command line of the worker."""
    job.write(path)
    return [*PROGRAM, job.mode, str(path)]


def launch_worker(job: Job, folder: Path, *, keep_log: bool = False) -> int:
    """Run a worker to its end, with job and log in a folder; where it fails, show the end of its log.

    Returns:
        The worker's exit code where it did its job, refused it or was stopped, else 1.

    Raises:
        ConfigError: The folder cannot be written.
    """
    log = folder / LOG_NAME
    with writing(folder):
        command = worker_command(job, folder / JOB_NAME)
    code = run_child(command, log=log)
    if code in (ExitCode.OK, ExitCode.REFUSED) or was_stopped(code):
        return code
    show_log(log, code, keep=keep_log)
    return ExitCode.FAILED
