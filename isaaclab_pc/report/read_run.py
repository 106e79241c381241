# SPDX-License-Identifier: BSD-3-Clause
"""Everything that a run's folder tells, as far as it can be read: what is missing or odd is said, and left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.fault_dump import FaultDump
from isaaclab_pc.launch.run_folder import SETTINGS_NAME
from isaaclab_pc.launch.run_record import RECORD_NAME, RunData, add_progress
from isaaclab_pc.scaling.ledger import Ledger, measured_ledger
from isaaclab_pc.scaling.trial import Trial
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.supervise.events import EVENTS_NAME
from isaaclab_pc.viz.films import Film, read_films
from isaaclab_pc.viz.run_curves import RunCurves, read_run_curves

__all__ = ["DumpFacts", "Event", "RunFacts", "read_run", "read_time", "without_effect"]

MOST_DUMPS = 20
"""Dumps that a report names."""

MOST_EVENTS = 200
"""Events that a report shows, the first ones."""

_UNKNOWN = {
    "task": "unknown task",
    "runner": "unknown",
    "algorithm": "unknown",
    "experiment": "unknown",
    "started": "unknown",
    "num_envs": "auto",
    "max_iterations": None,
    "versions": {},
    "git": None,
}
"""Stand-ins for fields of the record that have no default and cannot be read."""


@dataclass(frozen=True)
class Event:
    """A line of ``events.jsonl``."""

    name: str
    """Kind of event: ``died``, ``restart``, ``recovered``, ``gave up`` or ``stopped``."""

    time: datetime | None
    """When; None where that cannot be read."""

    facts: dict[str, Any]
    """All else that stands there."""


@dataclass(frozen=True)
class DumpFacts:
    """A file of failed environments."""

    path: Path
    """The file."""

    failures: tuple[tuple[int, str, int], ...]
    """Of each environment in it: its index, the causes, and the step of the run."""


@dataclass
class RunFacts:
    """All that a run's folder tells."""

    folder: Path
    """As the user wrote it."""

    data: RunData
    """The record."""

    settings: RunSettings | None = None
    """The settings; None where they cannot be read."""

    curves: RunCurves | None = None
    """Its iterations; None where there are none."""

    events: list[Event] = field(default_factory=list)
    """Events of its processes."""

    dumps: list[DumpFacts] = field(default_factory=list)
    """Failures that were kept."""

    trials: list[Trial] = field(default_factory=list)
    """Trials of the search for the number of environments."""

    ledger: Ledger | None = None
    """Memory of the chosen trial by purpose; None where no trial told."""

    films: dict[str, Film] = field(default_factory=dict)
    """Films of the policy's observations, by the names of :data:`isaaclab_pc.viz.films.FILMS`."""

    problems: list[str] = field(default_factory=list)
    """Files and fields that cannot be read, a sentence each."""


def without_effect(folder: Path) -> tuple[str, ...]:
    """Return the settings that a run has and its task, of another package, does not: ``obs`` and ``robot``, or none.

    Args:
        folder: The run's folder, in which the task's config tells.
    """
    try:
        config = (folder / "params" / "env.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return () if re.search(r"^obs:", config, re.MULTILINE) else ("obs", "robot")


def read_run(folder: Path) -> RunFacts:
    """Read a run's folder.

    Args:
        folder: ``logs/<runner>/<experiment>/<time>``, of a run of one's own or of somebody else.

    Returns:
        What can be read; ``problems`` says what cannot.

    Raises:
        ConfigError: The folder has no record of a run.
    """
    data, problems = _read_record(folder)
    add_progress(folder, data)
    run = RunFacts(folder, data, problems=problems)
    for read in (_read_settings, _read_curves, _read_events, _read_dumps, _read_trials, _read_films):
        _try(run, read)
    return run


def _try(run: RunFacts, read: Callable[[RunFacts], None]) -> None:
    """Read a part; one that cannot be read is said, and takes nothing else with it."""
    try:
        read(run)
    except (ConfigError, OSError, ValueError) as error:
        run.problems.append(f"{_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_record(folder: Path) -> tuple[RunData, list[str]]:
    """Read ``run.json``; fields that are not as they should be get their defaults, and are named."""
    path = folder / RECORD_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not a run's folder: it has no {RECORD_NAME}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {_first_line(error)}.") from None
    if not isinstance(content, dict) or not content.keys() & RunData.model_fields.keys():
        raise ConfigError(f"{path} is not the record of a run: it has none of its fields.")

    try:
        return RunData.model_validate_json(_as_text(content)), []
    except ValidationError as error:
        wrong = {str(problem["loc"][0]): problem for problem in reversed(error.errors()) if problem["loc"]}
    problems = [
        f"{RECORD_NAME}, {'.'.join(map(str, problem['loc']))[:80]}: {problem['msg'].lower()}; left out"
        for problem in wrong.values()
    ]
    rest = {key: value for key, value in content.items() if key not in wrong}
    try:
        return RunData.model_validate_json(_as_text(_UNKNOWN | rest)), problems
    except ValidationError as error:
        raise ConfigError(f"{path} cannot be read: {error.errors()[0]['msg']}.") from None


def _as_text(content: dict[str, Any]) -> str:
    """Return JSON of a file's content, without letters that are none (Python reads halves of pairs)."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", errors="replace").decode("utf-8")


def _read_settings(run: RunFacts) -> None:
    run.settings = RunSettings.load(run.folder / SETTINGS_NAME)


def _read_curves(run: RunFacts) -> None:
    curves = read_run_curves(run.folder)
    run.curves = curves if curves.iterations else None
    if run.curves is None and run.data.completed_iterations > 0:
        run.problems.append("there are no curves: the run's iterations were not logged")


def _read_events(run: RunFacts) -> None:
    path = run.folder / EVENTS_NAME
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines[:MOST_EVENTS], start=1):
        try:
            content = json.loads(line)
            facts = {str(key): value for key, value in content.items() if key not in ("time", "event")}
            run.events.append(Event(str(content["event"]), read_time(content.get("time")), facts))
        except (ValueError, KeyError, AttributeError, RecursionError):
            run.problems.append(f"{EVENTS_NAME}, line {number}: not an event; left out")
    if len(lines) > MOST_EVENTS:
        run.problems.append(f"{EVENTS_NAME} has {len(lines):,} lines; the first {MOST_EVENTS} are shown")


def _read_dumps(run: RunFacts) -> None:
    paths = sorted((run.folder / "dumps").glob("dump_*.npz"), key=lambda path: (len(path.name), path.name))
    for path in paths[:MOST_DUMPS]:
        _try(run, lambda run, path=path: run.dumps.append(_read_dump(path)))
    if len(paths) > MOST_DUMPS:
        run.problems.append(f"there are {len(paths)} dumps; the first {MOST_DUMPS} are shown")


def _read_dump(path: Path) -> DumpFacts:
    dump = FaultDump.load(path)
    ids, steps = (dump.arrays[name].tolist() for name in ("env_id", "step"))
    causes = (", ".join(dump.causes_of(position)) for position in range(len(ids)))
    return DumpFacts(path, tuple(zip(ids, causes, steps, strict=True)))


def _read_trials(run: RunFacts) -> None:
    for index, trial in enumerate(run.data.trials):
        try:
            run.trials.append(Trial.from_dict(trial))
        except ValueError as error:
            run.problems.append(f"{RECORD_NAME}, trials.{index}: {_first_line(error)}; left out")
    if isinstance(run.data.num_envs, int):
        run.ledger = measured_ledger(run.trials, run.data.num_envs)


def _read_films(run: RunFacts) -> None:
    run.films = read_films(run.folder)


def read_time(text: object) -> datetime | None:
    """Read a time in ISO 8601 as one of this machine's zone; None where it is none."""
    try:
        return datetime.fromisoformat(str(text)).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
