# SPDX-License-Identifier: BSD-3-Clause
"""Run folders and ``run.json``, the record that play, resume and reports read. Loads no torch."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.packages import installed_versions
from isaaclab_pc.scaling import Trial

__all__ = ["RunRecord", "find_checkpoint", "make_folder", "make_run_folder", "versions"]

RECORD_NAME = "run.json"
CONFIG_NAME = "config.yaml"
CHECKPOINT_FOLDER = "checkpoints"

_PACKAGES = (
    "isaaclab_pc",
    "isaaclab",
    "torch",
    "warp-lang",
    "newton",
    "mujoco-warp",
    "ovphysx",
    "isaacsim",
    "rsl-rl-lib",
    "rl-games",
    "gymnasium",
)


def make_run_folder(root: Path, runner: str, experiment: str) -> Path:
    """Make a folder that no other run has.

    Args:
        root: The logs folder.
        runner: Name of the learning library.
        experiment: Name of the task, with the observation kind where it is not the cloud.

    Returns:
        ``<root>/<runner>/<experiment>/<time>[_<job id>]``, new and empty.
    """
    job = "_".join(os.environ[v] for v in ("SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID") if os.environ.get(v))
    return make_folder(root / runner / experiment, job)


def make_folder(parent: Path, suffix: str = "") -> Path:
    """Make a folder named by the time, which nobody else has, also where several start in the same second.

    Args:
        parent: Where to; it is made where it is missing.
        suffix: Added to the name.

    Returns:
        The new folder.
    """
    parent.mkdir(parents=True, exist_ok=True)
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S") + (f"_{suffix}" if suffix else "")
    for attempt in itertools.count():
        folder = parent / (f"{name}_{attempt}" if attempt else name)
        with contextlib.suppress(FileExistsError):
            folder.mkdir()  # atomic: one of them gets the name
            return folder
    raise AssertionError("unreachable")


class RunRecord:
    """``run.json`` of one run: read, changed in memory, written atomically on every update."""

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        """Hold a record; use :meth:`create` or :meth:`load`.

        Args:
            folder: The run's folder.
            data: The record's content.
        """
        self.folder = folder
        self.data = data

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any], experiment: str) -> RunRecord:
        """Start the record of a new run.

        Args:
            folder: The run's folder.
            config: The run's config.
            experiment: Name of the experiment's folder.

        Returns:
            The record, already written.
        """
        record = cls(
            folder,
            {
                "task": config["task"],
                "runner": config["runner"]["name"],
                "experiment": experiment,
                "status": "running",
                "error": None,
                "started": _now(),
                "ended": None,
                "wall_s": 0.0,
                "num_envs": config["num_envs"],
                "max_iterations": config["max_iterations"],
                "completed_iterations": 0,
                "trials": [],
                "checkpoints": {"latest": None, "best": None},
                "resumed": [],
                "versions": versions(),
                "git": _git_hash(),
                "config": dict(config),
            },
        )
        record.update()
        return record

    @classmethod
    def load(cls, folder: Path) -> RunRecord:
        """Read the record of an existing run.

        Args:
            folder: The run's folder.

        Returns:
            The record.

        Raises:
            ConfigError: There is none, or it cannot be read.
        """
        path = folder / RECORD_NAME
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{folder} is not a run's folder: it has no {RECORD_NAME}.") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        if not isinstance(data, dict) or not {"task", "runner", "checkpoints"} <= data.keys():
            raise ConfigError(f"{path} is not the record of a run.")
        return cls(folder, data)

    def update(self, **fields: Any) -> None:
        """Set fields and write the file at once; a reader sees the old record or the new one, never half of one.

        Args:
            **fields: JSON-able values by name; NaN and inf become null.
        """
        self.data.update(fields)
        path = self.folder / RECORD_NAME
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(_finite(self.data), indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)

    def add_trial(self, trial: Trial) -> None:
        """Keep a trial of the search for the number of environments."""
        self.update(trials=[*self.data["trials"], {**vars(trial)}])

    def finish(self, status: str, error: str | None = None) -> None:
        """Close the record.

        Args:
            status: ``completed``, ``interrupted``, ``failed`` or ``storm``.
            error: What went wrong, for people.
        """
        self.update(status=status, error=error, ended=_now())

    def checkpoint(self, which: str) -> Path | None:
        """Return the ``latest`` or ``best`` checkpoint, or None where there is none (any more)."""
        entry = self.data["checkpoints"].get(which)
        path = self.folder / entry["path"] if entry else None
        return path if path is not None and path.is_file() else None


def find_checkpoint(resume: str, root: Path, runner: str, experiment: str) -> tuple[RunRecord, Path]:
    """Turn ``resume=latest|best|<path>`` into a run and one of its checkpoints.

    Args:
        resume: ``latest``: the newest checkpoint of the newest run that has one. ``best``: that run's checkpoint with
            the highest success rate. Otherwise the path of a run's folder (its newest checkpoint) or of a checkpoint.
        root: The logs folder.
        runner: Name of the learning library, for ``latest`` and ``best``.
        experiment: Name of the experiment's folder, likewise.

    Returns:
        The run's record and the checkpoint.

    Raises:
        ConfigError: There is no such run or checkpoint.
    """
    if resume in ("latest", "best"):
        parent = root / runner / experiment
        for record in _newest_first(parent):
            path = record.checkpoint(resume) or record.checkpoint("latest")
            if path is not None:
                return record, path
        raise ConfigError(f"resume={resume}: {parent} holds no run with a checkpoint; train one first.")
    path = Path(resume)
    if path.is_dir():
        record = RunRecord.load(path)
        checkpoint = record.checkpoint("latest")
        if checkpoint is None:
            raise ConfigError(f"resume={resume}: this run has no checkpoint.")
        return record, checkpoint
    if not path.is_file():
        raise ConfigError(f"resume={resume}: expected latest, best, or the path of a run's folder or checkpoint.")
    return RunRecord.load(path.resolve().parent.parent), path.resolve()


def _newest_first(parent: Path) -> list[RunRecord]:
    records = []
    for path in parent.glob(f"*/{RECORD_NAME}"):
        with contextlib.suppress(ConfigError):
            records.append(RunRecord.load(path.parent))
    return sorted(records, key=lambda record: (record.data.get("started") or "", record.folder.name), reverse=True)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _finite(value: Any) -> Any:
    """Replace NaN and inf, which JSON does not have, by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that a result depends on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    return found | installed_versions(_PACKAGES)


def _git_hash() -> str | None:
    """Return the commit of this package's own repository, marked where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        # A package installed into a venv inside somebody's repository must not report that repository.
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", "__init__.py"], check=True, capture_output=True, timeout=10
        )
        done = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


class WallClock:
    """Time of a run over all its resumptions."""

    def __init__(self, record: RunRecord) -> None:
        """Start counting on top of what the record has.

        Args:
            record: The run's record.
        """
        self._before = float(record.data["wall_s"])
        self._start = time.monotonic()

    def seconds(self) -> float:
        """Return the run's time so far [s]."""
        return self._before + time.monotonic() - self._start
