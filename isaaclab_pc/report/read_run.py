# SPDX-License-Identifier: BSD-3-Clause
"""Read a run's folder, one's own or a stranger's: files that are missing or odd are named, and left out."""

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.num_envs.ledger import Ledger, measured_ledger
from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.report.films import Film, read_films
from isaaclab_pc.report.words import NOTHING, local_time
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.folder import EVENTS_NAME, SETTINGS_NAME
from isaaclab_pc.run.iteration_log import Iteration, read_iterations
from isaaclab_pc.run.record import RECORD_NAME, CurvePoint, RunData, RunRecord
from isaaclab_pc.settings import RunSettings

_MAX_DUMPS = 20
MAX_EVENTS = 200
"""Dumps and events that a report shows, the first ones."""


@dataclass
class RunFacts:
    """A run, as far as its folder can be read."""

    folder: Path
    """As the user wrote it."""
    data: RunData
    """The record."""
    name: str = ""
    """The shortest end of the folder's path that no run beside it has."""
    settings: RunSettings | None = None
    """None where they cannot be read."""
    unused: frozenset[str] = frozenset()
    """Settings that the run has and its task, of another package, does not: ``obs`` and ``robot``, or none."""
    iterations: list[Iteration] = field(default_factory=list)
    """Those that are completed, in their order."""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Time, name and facts of each line of ``events.jsonl``, for people."""
    dumps: list[tuple[Path, str]] = field(default_factory=list)
    """Files of failed environments, each with its failures for people."""
    trials: list[Trial] = field(default_factory=list)
    """Trials of the search for the number of environments."""
    ledger: Ledger | None = None
    """Memory of the chosen trial by purpose; None where no trial told."""
    films: dict[str, Film] = field(default_factory=dict)
    """By the names of :data:`isaaclab_pc.report.films.FILMS`."""
    problems: list[str] = field(default_factory=list)
    """Sentences about files that cannot be read."""

    def metric(self, name: str) -> list[float]:
        """Return a metric, by the names of ``Runner.train``, after each iteration; NaN where it had no value."""
        return [entry.metrics.get(name, math.nan) for entry in self.iterations]

    @cached_property
    def metric_names(self) -> list[str]:
        """Names of all metrics, sorted."""
        return sorted({name for entry in self.iterations for name in entry.metrics})

    @cached_property
    def evaluations(self) -> list[CurvePoint]:
        """All evaluations in the order of the training, that at the end included."""
        data = self.data
        if data.evaluation is None:
            return data.evaluations
        at_end = CurvePoint(
            iteration=data.completed_iterations,
            env_steps=data.env_steps,
            wall_s=data.wall_s,
            evaluation_s=0.0,
            evaluation=data.evaluation,
        )
        return [*data.evaluations, at_end]

    @property
    def last_evaluation(self) -> Evaluation | None:
        """The newest evaluation; None where there was none."""
        return self.evaluations[-1].evaluation if self.evaluations else None

    @property
    def faults(self) -> dict[str, int]:
        """Environments that the guard ended by cause, the most frequent first; without causes that ended none."""
        counts = {cause: number for cause, number in self.data.guard.items() if number > 0}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def chosen_trial(self) -> Trial | None:
        """The trial of the search that had as many environments as the run; None where there was none."""
        return next((trial for trial in self.trials if trial.num_envs == self.data.num_envs and trial.fits), None)

    @property
    def budget(self) -> int | None:
        """Memory that the search held the run to [bytes]; None where there was no search."""
        trial = self.chosen_trial
        if trial is None:
            return None
        return trial.host_budget if trial.device_bytes is None else trial.device_budget

    @property
    def speeds(self) -> dict[str, float | None]:
        """Median environment steps per second: ``env`` alone, ``inference`` with the policy, ``total`` with the update.

        The first iteration, which compiles kernels, counts only where it is alone; None: not known.
        """
        medians = {}
        for part in ("env", "inference", "total"):
            speeds = self.metric(f"Perf/{part}_fps")
            finite = [speed for speed in speeds[1:] or speeds if math.isfinite(speed)]
            medians[part] = statistics.median(finite) if finite else None
        return medians

    @property
    def contact_share(self) -> float | None:
        """Largest part of the solver's contact buffers that was in use; None where it is not known."""
        used = (self.data.contacts or {}).get("share")
        return used if isinstance(used, (int, float)) and math.isfinite(used) else None


def read_run(folder: Path) -> RunFacts:
    """Read all of a run's folder, ``logs/<runner>/<experiment>/<time>``, one's own or a stranger's.

    Raises:
        ConfigError: The folder has no readable record of a run.
    """
    run = _read_result(folder)
    for read in (_read_events, _read_dumps, _read_trials, lambda run: run.films.update(read_films(run.folder))):
        _try(run, read)
    return run


def read_runs(folders: Sequence[Path]) -> list[RunFacts]:
    """Read records, settings and iterations of several runs, which are named by the ends of their paths.

    Raises:
        ConfigError: A folder has no readable record of a run.
    """
    runs = [_read_result(folder) for folder in folders]
    for run, name in zip(runs, _names(folders), strict=True):
        run.name = name
    return runs


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the ends of paths, as long as is needed to tell them apart; of equal paths, numbered ones."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, start=1)]


def _read_result(folder: Path) -> RunFacts:
    run = RunFacts(folder, RunRecord.load(folder).data)
    for read in (_read_settings, _read_iterations):
        _try(run, read)
    return run


def _try(run: RunFacts, read: Callable[[RunFacts], None]) -> None:
    """Read a part; one that cannot be read is named, and takes nothing else with it."""
    try:
        read(run)
    except (ConfigError, OSError, ValueError, OverflowError) as error:
        run.problems.append(_first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_settings(run: RunFacts) -> None:
    run.settings = RunSettings.load(run.folder / SETTINGS_NAME)
    config = run.folder / "params" / "env.yaml"
    is_foreign = config.exists() and not re.search(r"^obs:", config.read_text("utf-8", "replace"), re.MULTILINE)
    run.unused = frozenset({"obs", "robot"}) if is_foreign else frozenset()


def _read_iterations(run: RunFacts) -> None:
    run.iterations = read_iterations(run.folder)
    if not run.iterations and run.data.completed_iterations > 0:
        run.problems.append("there are no curves: the run's iterations were not logged")


def _read_events(run: RunFacts) -> None:
    path = run.folder / EVENTS_NAME
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines[:MAX_EVENTS], start=1):
        try:
            content = json.loads(line)
            time = local_time(str(content.pop("time", NOTHING)))
            name = str(content.pop("event"))
            known = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in content.items() if value != "")
            run.events.append((time, name, known))
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            run.problems.append(f"{EVENTS_NAME}, line {number}: not an event; left out")
    if len(lines) > MAX_EVENTS:
        run.problems.append(f"{EVENTS_NAME} has {len(lines):,} lines; the first {MAX_EVENTS} are shown")


def _read_dumps(run: RunFacts) -> None:
    paths = sorted((run.folder / "dumps").glob("dump_*.npz"), key=lambda path: (len(path.name), path.name))
    for path in paths[:_MAX_DUMPS]:
        _try(run, lambda run, path=path: run.dumps.append(_read_dump(path)))
    if len(paths) > _MAX_DUMPS:
        run.problems.append(f"there are {len(paths)} dumps; the first {_MAX_DUMPS} are shown")


def _read_dump(path: Path) -> tuple[Path, str]:
    dump = FaultDump.load(path)
    failures = enumerate(zip(dump.arrays["env_id"], dump.arrays["step"], strict=True))
    texts = (f"environment {env}, step {step}: {', '.join(dump.causes_of(i))}" for i, (env, step) in failures)
    return path, "; ".join(texts)


def _read_trials(run: RunFacts) -> None:
    for index, trial in enumerate(run.data.trials):
        try:
            run.trials.append(Trial.from_json(json.dumps(trial)))
        except ValueError as error:
            run.problems.append(f"{RECORD_NAME}, trials.{index}: {_first_line(error)}; left out")
    if isinstance(run.data.num_envs, int):
        run.ledger = measured_ledger(run.trials, run.data.num_envs)
