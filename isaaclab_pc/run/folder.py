# SPDX-License-Identifier: BSD-3-Clause
"""Where runs are kept: ``logs/<runner>/<experiment>/<time>[_<job id>]``."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from filelock import Timeout

from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import GRACE_SECONDS
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import locked_file

LOGS = Path("logs")
"""All runs, in the working directory."""

SETTINGS_NAME = "config.yaml"
"""A run's settings, with which its environment and agent were built last."""

SCRIPT_LOCK = ".lock"
"""The lock of the script that trains a run."""

WORKER_LOCK = ".worker.lock"
"""The lock of its worker."""

PROGRESS_NAME = "progress.json"
"""The worker's activity, a :class:`~isaaclab_pc.num_envs.trial.Progress`."""

EVENTS_NAME = "events.jsonl"
"""Deaths, restarts and stops of the run, one line each, which its supervisor writes."""

LOG_NAME = "worker.log"
"""Output of simulators and libraries in the child, beside its job."""


def experiment_name(settings: RunSettings) -> str:
    """Return the name of the experiment's folder: the task, and the observations unless they are the cloud."""
    name = short_name(settings.task)
    return name if settings.obs == "points" else f"{name}_{settings.obs}"


def runs_folder(settings: RunSettings) -> Path:
    """Return the folder of all runs with the same library, task and observations."""
    return LOGS / settings.runner / experiment_name(settings)


def make_run_folder(settings: RunSettings, name: str | None = None) -> Path:
    """Make ``<time>[_<job id>]`` in the folder of such runs, or a folder with a name, which may be there.

    Raises:
        ConfigError: The folder cannot be made.
    """
    if name is None:
        job = "_".join(os.environ[v] for v in ("SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID") if os.environ.get(v))
        return make_folder(runs_folder(settings), job)
    folder = runs_folder(settings) / name
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_folder(parent: Path, suffix: str = "") -> Path:
    """Make a folder named by the time, which nobody else has, also where several start in the same second.

    Raises:
        ConfigError: The folder cannot be made.
    """
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S") + (f"_{suffix}" if suffix else "")
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for attempt in itertools.count():
            folder = parent / (f"{name}_{attempt}" if attempt else name)
            # Making a folder is atomic: of several processes, one gets the name.
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
    raise AssertionError("unreachable")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block, which writes into a folder, into a ConfigError with the next step."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror}): make room, or start from a folder where you may write."
        ) from None


@contextlib.contextmanager
def locked(folder: Path, name: str = SCRIPT_LOCK, timeout: float = 0.0) -> Iterator[None]:
    """Keep other processes from training the run in a folder, for the time of a block.

    A script holds :data:`SCRIPT_LOCK` and its worker :data:`WORKER_LOCK`: a worker that outlives its script by a
    checkpoint still writes there. ``timeout`` is how long to wait for another process [s].

    Raises:
        ConfigError: Another process trains it, or the lock's file cannot be made or locked.
    """
    instead = "Two processes could train one run: start from a folder on another disk, such as a local one."
    with contextlib.ExitStack() as stack:
        with writing(folder / name):
            try:
                stack.enter_context(locked_file(folder / name, instead, timeout))
            except Timeout:
                raise ConfigError(f"{folder} is being trained by another process.") from None
        yield


def wait_for_worker(folder: Path) -> bool:
    """Wait for a worker that outlives its script, which was killed, to write one more checkpoint.

    Returns:
        Whether there was one.

    Raises:
        ConfigError: It still trains after the time that it has for its checkpoint.
    """
    try:
        with locked(folder, WORKER_LOCK):
            return False
    except ConfigError:
        current().say(f"{folder}: waiting for a worker that outlived its script to write its checkpoint")

    with locked(folder, WORKER_LOCK, GRACE_SECONDS):
        return True
