# SPDX-License-Identifier: BSD-3-Clause
"""``run.json``, the record of a run, which play, resume and reports read. Loads no torch."""

import json
import platform
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import read_header
from isaaclab_pc.num_envs.profile import Answer
from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.folder import experiment_name
from isaaclab_pc.run.iteration_log import last_iteration
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import shown
from isaaclab_pc.utils.files import write_text_atomically
from isaaclab_pc.utils.json_record import first_problem
from isaaclab_pc.utils.packages import installed_versions

RECORD_NAME = "run.json"
CHECKPOINT_FOLDER = "checkpoints"

_PACKAGES = (
    *("isaaclab_pc", "isaaclab", "torch", "warp-lang", "newton", "mujoco-warp", "ovphysx", "isaacsim"),
    *("rsl-rl-lib", "rl-games", "skrl", "stable-baselines3", "gymnasium"),
)


class _Part(BaseModel):
    """A part of the record, checked whenever it is read or changed."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, use_attribute_docstrings=True)


class CheckpointEntry(_Part):
    """One checkpoint of a run."""

    path: str
    """File, relative to the run's folder."""

    iteration: int
    """Iterations completed."""

    success_rate: float | None
    """Mean success rate of training since the checkpoint before; None where it is not known."""

    evaluation: Evaluation | None = None
    """Its evaluation for the choice of the best; None where there was none."""


class CheckpointEntries(_Part):
    """The checkpoints that are worth finding."""

    latest: CheckpointEntry | None = None
    """The newest."""

    best: CheckpointEntry | None = None
    """The one with the best evaluation; the newest until one was evaluated."""


class CurvePoint(_Part):
    """How good the policy was at some time of the training."""

    iteration: int
    """Iterations completed."""

    env_steps: int
    """Steps of all environments together until then."""

    wall_s: float
    """The run's time until then, earlier evaluations included [s]."""

    evaluation_s: float
    """How long this evaluation took [s]."""

    evaluation: Evaluation
    """Its result, without the breakdown."""


class RestartEntry(_Part):
    """A training process that died, and how the run went on."""

    time: str
    """When, ISO 8601."""

    cause: str
    """Why it died: a :class:`~isaaclab_pc.supervise.deaths.DeathCause`."""

    detail: str
    """The same for people."""

    iteration: int
    """Iterations that it had completed."""

    from_iteration: int
    """Iterations of the checkpoint that the next process went on from; 0: from the start."""

    note: str
    """Changes from then on; empty where there were none."""

    num_envs: int = 0
    """Environments that it had; 0: not known."""

    taken_by_others: int = 0
    """Memory that other programs took while it ran, where it ran out of memory for that [bytes]."""


class RunData(_Part):
    """Facts of a run. Numbers that are not finite are written as null."""

    task: str
    """Gym id."""

    runner: str
    """Learning library."""

    algorithm: str
    """``ppo`` or ``distill``."""

    teacher: str | None = None
    """Whom it imitates: ``expert``, or the path of a run or checkpoint."""

    experiment: str
    """Name of the experiment's folder."""

    status: Literal["running", "completed", "interrupted", "failed", "storm"] = "running"
    """``storm``: too many environments failed, and the run stopped with a checkpoint."""

    error: str | None = None
    """Error message, for people."""

    started: str
    """When it was started first, ISO 8601."""

    ended: str | None = None
    """When it ended last, ISO 8601."""

    wall_s: float = 0.0
    """Time that it took, all resumptions together [s]."""

    num_envs: int | Literal["auto"]
    """Environments; ``auto`` until they are found."""

    max_iterations: int | None
    """The run's last iteration; None until the agent's config is read."""

    completed_iterations: int = 0
    """Iterations completed."""

    env_steps: int = 0
    """Steps of all environments together."""

    trials: list[dict[str, Any]] = Field(default_factory=list)
    """Sizes that the search tried: fields of :class:`~isaaclab_pc.num_envs.trial.Trial`."""

    earlier_search: str | None = None
    """When an earlier run's search found the number of environments; None where it is not from the cache."""

    answer: Answer | None = None
    """The answer of the search, and how it held in training; None where the number was given."""

    checkpoints: CheckpointEntries = CheckpointEntries()
    """The latest and the best checkpoint."""

    evaluations: list[CurvePoint] = Field(default_factory=list)
    """The evaluations that chose the best checkpoint, in the order of the training."""

    resumed: list[str] = Field(default_factory=list)
    """File names of the checkpoints that the run was resumed from."""

    restarts: list[RestartEntry] = Field(default_factory=list)
    """Training processes that died and were replaced."""

    versions: dict[str, str]
    """Versions of Python, the platform and the packages that a result depends on."""

    git: str | None
    """Commit of this package's repository, with ``-dirty`` where files differ from it."""

    physics: str | None = None
    """Physics backend that ran."""

    device: str | None = None
    """Device that it ran on."""

    batch: dict[str, int] | None = None
    """Horizon and minibatches: the fields of :class:`~isaaclab_pc.learners.common.batch.BatchPlan`."""

    build_s: float | None = None
    """Time that building environment and runner took [s]."""

    peak_bytes: int | None = None
    """Most memory that the process which trained had [bytes]."""

    device_peak_bytes: int | None = None
    """Most GPU memory that it was seen to have [bytes]; None on the CPU."""

    metrics: dict[str, float | None] = Field(default_factory=dict)
    """Metrics of the last iteration."""

    guard: dict[str, int] = Field(default_factory=dict)
    """Environments that the guard ended, by cause."""

    contacts: dict[str, Any] | None = None
    """How full the solver's contact buffers were: a :class:`~isaaclab_pc.physics.ContactUsage`."""

    harder_physics: dict[str, int | float] | None = None
    """After a storm: fields of ``physics`` to go on with."""

    evaluation: Evaluation | None = None
    """The evaluation at the end."""

    success: float | None = None
    """Its share of episodes that ended in success."""


@dataclass
class RunRecord:
    """``run.json`` of one run: changed in memory, written atomically when a run starts, ends and saves a checkpoint.

    :meth:`load` adds the iterations since, from :data:`~isaaclab_pc.run.iteration_log.ITERATIONS_NAME`.
    """

    folder: Path
    """The run's folder."""

    data: RunData
    """The content of the file."""

    @classmethod
    def create(cls, folder: Path, settings: RunSettings) -> Self:
        """Write the record of a new run; its settings stand beside it in a file of their own."""
        data = RunData(
            task=settings.task,
            runner=settings.runner,
            algorithm=settings.algorithm,
            teacher=settings.teacher,
            experiment=experiment_name(settings),
            started=_now(),
            num_envs=settings.num_envs,
            max_iterations=settings.max_iterations,
            versions=versions(),
            git=git_commit(),
        )
        record = cls(folder, data)
        record.update()
        return record

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the record of a run, with the iterations since it was written; raise a ConfigError where it cannot."""
        path = folder / RECORD_NAME
        try:
            # From bytes: the parts that are a JsonRecord take no other input.
            data = RunData.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(
                f"{folder} is no run's folder: it has no {RECORD_NAME}. Give logs/<runner>/<task>/<time>, or latest."
            ) from None
        except OSError as error:
            raise ConfigError(f"{shown(path)} cannot be read: {error.strerror}.") from None
        except ValidationError as error:
            raise ConfigError(f"{path} is not the record of a run: {first_problem(error)}.") from None
        last = last_iteration(folder)
        # The time of a run that goes on from an older checkpoint goes on, too.
        if last is not None and last.wall_s > data.wall_s:
            data.completed_iterations = last.iteration
            data.env_steps = last.env_steps
            data.wall_s = last.wall_s
            data.metrics = dict(last.metrics)
        return cls(folder, data)

    def note(self, **fields: Any) -> None:
        """Set fields of :attr:`data` by name, which :meth:`update` writes."""
        for name, value in fields.items():
            setattr(self.data, name, value)

    def update(self, **fields: Any) -> None:
        """Set fields of :attr:`data`, and write the file at once; a reader sees the old record or the new one."""
        self.note(**fields)
        content = to_jsonable_python(self.data.model_dump(), inf_nan_mode="null")
        write_text_atomically(self.folder / RECORD_NAME, json.dumps(content, indent=2) + "\n")

    def add_trial(self, trial: Trial) -> None:
        """Keep a trial of the search for the number of environments."""
        self.update(trials=[*self.data.trials, trial.to_dict()])

    def go_on(self, checkpoint: Path | None, **fields: Any) -> int:
        """Let the run go on from a checkpoint, or anew from None, and return the iterations that are completed.

        What came after the checkpoint is no part of the run any more; the best one stays the best until its file is
        written anew. ``fields`` are as for :meth:`update`.
        """
        iteration = 0
        entries = CheckpointEntries()
        if checkpoint is not None:
            found = read_header(checkpoint).get("iteration")
            iteration = found if isinstance(found, int) else 0
            before = self.data.checkpoints
            path = f"{CHECKPOINT_FOLDER}/{checkpoint.name}"
            known = (entry for entry in (before.latest, before.best) if entry is not None and entry.path == path)
            latest = next(known, None) or CheckpointEntry(path=path, iteration=iteration, success_rate=None)
            entries = CheckpointEntries(latest=latest, best=before.best)

        self.update(
            status="running",
            error=None,
            ended=None,
            harder_physics=None,
            evaluation=None,
            success=None,
            completed_iterations=iteration,
            evaluations=[point for point in self.data.evaluations if point.iteration <= iteration],
            checkpoints=entries,
            **fields,
        )
        return iteration

    def finish(self, status: str, error: str | None = None) -> None:
        """Close the record with a status of :class:`RunData`, and what went wrong, for people."""
        self.update(status=status, error=error, ended=_now())

    def checkpoint(self, which: Literal["latest", "best"]) -> Path | None:
        """Return the ``latest`` or ``best`` checkpoint, or None where there is none (any more)."""
        entry: CheckpointEntry | None = getattr(self.data.checkpoints, which)
        path = self.folder / entry.path if entry is not None else None
        return path if path is not None and path.is_file() else None


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that a result depends on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    return found | installed_versions(_PACKAGES)


def git_commit() -> str | None:
    """Return the commit of this package's own repository, marked where files differ from it."""
    try:
        # A package installed into a venv inside somebody's repository must not report that repository.
        _git("ls-files", "--error-unmatch", "__init__.py")
        return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
