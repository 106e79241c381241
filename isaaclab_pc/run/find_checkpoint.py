# SPDX-License-Identifier: BSD-3-Clause
"""Which checkpoint ``latest``, ``best`` or a path means. Loads no torch."""

from pathlib import Path
from typing import Literal

from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS, check_header, check_intact, read_header
from isaaclab_pc.run.folder import LOGS, SETTINGS_NAME, runs_folder
from isaaclab_pc.run.pretrained import PRETRAINED, find_pretrained
from isaaclab_pc.run.record import CHECKPOINT_FOLDER, RECORD_NAME, RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current


def find_trained(which: str, settings: RunSettings, key: str = "resume") -> tuple[RunSettings, Path, Path]:
    """Find a policy: ``pretrained``, the one that comes with the task, or as :func:`find_checkpoint` does.

    Returns:
        The settings that trained it, its checkpoint, and the run's folder, ``logs/pretrained/<task>`` for a policy that
        has none here.
    """
    if which == PRETRAINED:
        return *find_pretrained(settings, key), LOGS / PRETRAINED / short_name(settings.task)
    record, checkpoint = find_checkpoint(which, settings, key)
    return RunSettings.load(record.folder / SETTINGS_NAME), checkpoint, record.folder


def find_checkpoint(resume: str, settings: RunSettings, key: str = "resume") -> tuple[RunRecord, Path]:
    """Turn ``resume=latest|best|<path>`` into a run and one of its checkpoints.

    A damaged checkpoint is passed over for the one before it, with a warning, unless it was named by its path.

    Args:
        resume: ``latest``: the newest checkpoint of the newest run that has one. ``best``: that run's checkpoint with
            the best evaluation. Otherwise the path of a run's folder (its newest checkpoint) or of a checkpoint.
        settings: Their runner, task and observations are those of ``latest`` and ``best``.
        key: The setting that it is the value of, for messages.

    Raises:
        ConfigError: There is no such run or checkpoint, or all of a run's checkpoints are damaged.
    """
    if (key, resume) == ("resume", PRETRAINED):
        raise ConfigError(
            "resume=pretrained: that policy has no run to go on with; init=pretrained trains it further with PPO, and "
            "scripts/play.py resume=pretrained plays it."
        )
    if resume in ("latest", "best"):
        return _newest(resume, runs_folder(settings), key)

    path = Path(resume)
    try:
        is_folder = path.is_dir()
        is_file = path.is_file()
    except OSError as error:
        raise ConfigError(f"{key}={resume}: {error.strerror}.") from None
    if is_folder:
        record = RunRecord.load(path)
        checkpoint = newest_checkpoint(record)
        if checkpoint is None:
            raise ConfigError(f"{key}={resume}: this run has no checkpoint.")
        return record, checkpoint
    if not is_file:
        raise ConfigError(f"{key}={resume}: expected latest, best, or the path of a run's folder or checkpoint.")
    if path.resolve().parent.name != CHECKPOINT_FOLDER:
        raise ConfigError(
            f"{key}={resume} is not a checkpoint of a run, whose settings it needs: expected "
            f"<run>/{CHECKPOINT_FOLDER}/model_<n>.pt, or the run's folder."
        )
    return RunRecord.load(path.resolve().parent.parent), path.resolve()


def check_checkpoint(path: Path, settings: RunSettings) -> None:
    """Refuse a file that is no checkpoint or is of another task or library; reads its header only."""
    check_header(read_header(path), {"task": settings.task, "runner": settings.runner}, path)


def newest_checkpoint(record: RunRecord) -> Path | None:
    """Return the newest undamaged checkpoint or None; raise a ConfigError where all are damaged."""
    checkpoints = _checkpoints(record, "latest")
    return _first_intact(checkpoints) if checkpoints else None


def newest_run(settings: RunSettings) -> RunRecord:
    """Return the newest run of an experiment, with or without a checkpoint; raise a ConfigError without any."""
    parent = runs_folder(settings)
    runs = _newest_first(parent)
    if not runs:
        raise ConfigError(f"run=latest: {parent} holds no run; {_elsewhere(parent)}")
    return runs[0]


def _elsewhere(parent: Path) -> str:
    """Say what to do where an experiment's folder holds no run: name the libraries that have some of it."""
    others = {path.relative_to(LOGS).parts[0] for path in LOGS.glob(f"*/{parent.name}/*/{RECORD_NAME}")}
    runners = sorted(others & set(RUNNERS) - {parent.parent.name})
    if runners:
        return f"give {' or '.join(f'runner={name}' for name in runners)}, of which there are some."
    return "give task= or obs= of one, or train one first."


def _newest(which: Literal["latest", "best"], parent: Path, key: str) -> tuple[RunRecord, Path]:
    """Return the newest run that has a checkpoint, and say which newer ones have none."""
    for record in _newest_first(parent):
        checkpoints = _checkpoints(record, which)
        if checkpoints:
            return record, _first_intact(checkpoints)
        current().warn(f"{key}={which}: {record.folder} has no checkpoint ({record.data.status})")
    raise ConfigError(f"{key}={which}: {parent} holds no run with a checkpoint; {_elsewhere(parent)}")


def _newest_first(parent: Path) -> list[RunRecord]:
    records = []
    for path in parent.glob(f"*/{RECORD_NAME}"):
        try:
            records.append(RunRecord.load(path.parent))
        except ConfigError as error:
            current().warn(f"warning: {error}; passing over it")
    return sorted(records, key=lambda record: (record.data.started, record.folder.name), reverse=True)


def _checkpoints(record: RunRecord, which: Literal["latest", "best"]) -> list[Path]:
    """Return a run's checkpoints: the one that is asked for, then the others, the newest first."""
    files = (record.folder / CHECKPOINT_FOLDER).glob("model_*.pt")
    newest_first = sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)
    chosen = record.checkpoint(which) or record.checkpoint("latest")
    if chosen is None:
        return newest_first
    return [chosen, *(file for file in newest_first if file != chosen)]


def _first_intact(checkpoints: list[Path]) -> Path:
    *others, last = checkpoints
    for path in others:
        try:
            check_intact(path)
            return path
        except ConfigError as error:
            current().warn(f"warning: {error}; taking an older one")
    check_intact(last)
    return last
