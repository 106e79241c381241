# SPDX-License-Identifier: BSD-3-Clause
"""Sections of a run's report, as plain values for the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from isaaclab_pc.launch.evaluation_result import Breakdown
from isaaclab_pc.launch.task_names import resolve_task, short_name
from isaaclab_pc.program_name import command_line
from isaaclab_pc.report.read_run import RunFacts, read_time
from isaaclab_pc.report.words import NOTHING, count, duration, memory, share, shortened, success_text
from isaaclab_pc.scaling.trial import Trial
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.run import SETTINGS

__all__ = [
    "Finding",
    "SettingRow",
    "Tile",
    "breakdown",
    "budget_of",
    "changed_settings",
    "chosen_trial",
    "contact_text",
    "dump_rows",
    "environment_speed",
    "event_rows",
    "faults",
    "findings",
    "other_settings",
    "restart_rows",
    "result_rows",
    "seen_text",
    "summary",
    "task_name",
    "tiles",
    "total",
    "version_rows",
    "what_ran",
]


class Tile(NamedTuple):
    """A number at the top of the page."""

    name: str
    value: str
    note: str
    """Name of the quantity."""


class SettingRow(NamedTuple):
    """A setting and its default."""

    key: str
    value: str
    default: str
    meaning: str


class Finding(NamedTuple):
    """A sentence that a reader should see first."""

    kind: str
    """``bad``: something failed; ``note``: worth knowing."""

    text: str


@dataclass(frozen=True)
class _Factor:
    """Success by the thirds of something that was randomized."""

    name: str
    thirds: tuple[tuple[str, str, str, float | None], ...]


def task_name(run: RunFacts) -> str:
    """Return the task's short name, or the id of another package's task."""
    return short_name(shortened(run.data.task))


def summary(run: RunFacts) -> str:
    """Return the run in one sentence."""
    data = run.data
    of = f" of {data.max_iterations:,}" if data.max_iterations is not None else ""
    where = f" on {', '.join(place for place in (data.device, data.physics) if place)}" if data.device else ""
    size = f"{data.num_envs:,} environments" if isinstance(data.num_envs, int) else "a number of environments not found"
    return (
        f"{data.completed_iterations:,}{of} iterations, {data.env_steps:,} environment steps in "
        f"{duration(data.wall_s)}, with {size}{where}."
    )


def tiles(run: RunFacts) -> list[Tile]:
    """Return the numbers at the top of the page."""
    data = run.data
    result = data.evaluation
    success = Tile("Success", NOTHING, "not evaluated")
    if result is not None and result.success is not None:
        interval = f"95 %: {100 * result.success.lower:.1f} to {100 * result.success.upper:.1f}"
        success = Tile("Success", share(result.success.rate), f"{interval}, {result.episodes:,} episodes")

    speed = environment_speed(run)
    budget = budget_of(run)
    limit = f"of {memory(budget)} budget" if budget is not None else "of the training process"
    number = sum(faults(run).values())
    return [
        success,
        Tile("Speed", NOTHING if speed is None else f"{speed:,.0f}", "environment steps per second"),
        Tile("Time", duration(data.wall_s), "resumptions and evaluations included"),
        Tile("Peak memory", memory(data.peak_bytes), limit),
        Tile("Guard", count(number), "episodes ended by a fault"),
        Tile("Restarts", count(len(data.restarts)), "processes that died and were replaced"),
    ]


def environment_speed(run: RunFacts) -> float | None:
    """Return the steps of all environments per second of rollouts and updates; None where there are no iterations."""
    if run.curves is None:
        speed = run.data.metrics.get("Perf/total_fps")
        return speed if speed is not None and math.isfinite(speed) else None
    curves = run.curves
    seconds = total(curves.metrics.get("collect_s", ())) + total(curves.metrics.get("learn_s", ()))
    # Iterations may be missing, so what they took is compared with the steps of those that are there.
    steps = curves.env_steps[-1] / curves.iterations[-1] * len(curves.iterations)
    return steps / seconds if seconds > 0 else None


def total(values: Iterable[float]) -> float:
    """Return the sum of the finite values."""
    return sum(value for value in values if math.isfinite(value))


def chosen_trial(run: RunFacts) -> Trial | None:
    """Return the trial of the search that had as many environments as the run; None where there was none."""
    return next((trial for trial in run.trials if trial.num_envs == run.data.num_envs and trial.fits), None)


def budget_of(run: RunFacts) -> int | None:
    """Return the memory that the search held the run to [bytes]; None where there was no search."""
    trial = chosen_trial(run)
    if trial is None:
        return None
    return trial.host_budget if trial.device_bytes is None else trial.device_budget


def faults(run: RunFacts) -> dict[str, int]:
    """Return the environments that the guard ended by cause, the most frequent first; without those of none."""
    counts = {shortened(cause): number for cause, number in run.data.guard.items() if number > 0}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def findings(run: RunFacts) -> list[Finding]:
    """Return what a reader should see first, failures before notes."""
    data = run.data
    bad = []
    if data.status in ("failed", "storm"):
        bad.append(f"The run ended early: {shortened(data.error or 'it did not say why')}")
    skipped = total(run.curves.metrics.get("Learner/skipped_updates", ())) if run.curves is not None else 0
    if skipped:
        bad.append(f"{skipped:,.0f} updates were skipped because loss, gradient or weights were not finite.")
    if data.contacts is not None and _is_number(data.contacts.get("share")) and data.contacts["share"] >= 1:
        bad.append("The solver's contact buffers were full, and contacts were dropped: give larger physics.contacts.")

    notes = []
    if data.status == "running":
        notes.append("The run was not finished when this page was written.")
    if data.status == "interrupted":
        notes.append("The run was stopped, and can go on: see the commands below.")
    if data.evaluation is None and data.status == "completed":
        notes.append("There was no evaluation at the end.")
    if (data.git or "").endswith("-dirty"):
        notes.append("The code differed from its commit, so the commit alone does not tell what ran.")
    notes += [f"Not on this page: {shortened(problem)}." for problem in run.problems]
    return [*(Finding("bad", text) for text in bad), *(Finding("note", text) for text in notes)]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def what_ran(run: RunFacts) -> list[tuple[str, str]]:
    """Return facts about the run, name and value."""
    data = run.data
    batch = data.batch or {}
    rows = [
        ("Task", data.task),
        ("Library", data.runner),
        ("Algorithm", data.algorithm + (f", teacher {data.teacher}" if data.teacher else "")),
        ("Physics", data.physics or NOTHING),
        ("Device", data.device or NOTHING),
        ("Environments", _environments(run)),
        ("Batch", ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in batch.items()) or NOTHING),
        ("Started", _clock(data.started)),
        ("Ended", _clock(data.ended) if data.ended else NOTHING),
        ("Build", duration(data.build_s)),
        ("Commit", data.git or NOTHING),
    ]
    return [(name, shortened(value)) for name, value in rows]


def _environments(run: RunFacts) -> str:
    """Return the number of environments, and where it is from, if that is another run."""
    size = count(run.data.num_envs) if isinstance(run.data.num_envs, int) else run.data.num_envs
    return size if run.data.earlier_search is None else f"{size}, found by an earlier run"


def _clock(text: str) -> str:
    time = read_time(text)
    return time.strftime("%Y-%m-%d %H:%M:%S %Z") if time is not None else text


def changed_settings(settings: RunSettings | None) -> list[SettingRow]:
    """Return a run's settings that differ from their defaults, those of task and agent included."""
    if settings is None:
        return []
    rows = [row for row in _all_settings(settings) if row.value != row.default]
    for override in (*settings.env_overrides, *settings.agent_overrides):
        key, _, value = override.partition("=")
        owner = "the task's" if key.startswith("env.") else "the agent's"
        rows.append(SettingRow(shortened(key), shortened(value), owner, ""))
    return rows


def other_settings(settings: RunSettings | None) -> list[SettingRow]:
    """Return a run's settings that have their defaults."""
    return [] if settings is None else [row for row in _all_settings(settings) if row.value == row.default]


def _all_settings(settings: RunSettings) -> list[SettingRow]:
    values = settings.flat()
    defaults = RunSettings().flat()
    # The default is a short name, of which the run knows the id.
    defaults["task"] = resolve_task(defaults["task"])
    return [
        SettingRow(key, _value(values[key]), _value(defaults[key]), setting.meaning)
        for key, setting in SETTINGS.items()
    ]


def _value(value: Any) -> str:
    return "null" if value is None else shortened(value)


def result_rows(run: RunFacts) -> list[tuple[str, str]]:
    """Return the evaluation at the end, name and value; empty where there was none."""
    result = run.data.evaluation
    if result is None:
        return []
    return [
        ("Success at the end of the episode", success_text(result.success)),
        ("Success at any step", success_text(result.success_once)),
        ("Mean return", NOTHING if result.mean_return is None else f"{result.mean_return:.2f}"),
        ("Mean time to success", duration(result.mean_time_to_success_s)),
        ("Episodes", f"{result.episodes:,}, seed {result.seed}"),
    ]


def breakdown(run: RunFacts) -> list[_Factor]:
    """Return success by what was randomized, the factors that it depends on most first."""
    result = run.data.evaluation
    known = [part for part in result.breakdown if any(third.success for third in part.thirds)] if result else []
    return [_factor(part) for part in sorted(known, key=lambda part: part.spread, reverse=True)]


def _factor(part: Breakdown) -> _Factor:
    thirds = []
    for third in part.thirds:
        rate = third.success.rate if third.success is not None else None
        thirds.append((f"{third.lower:.3g} to {third.upper:.3g}", share(rate), f"{third.episodes:,}", rate))
    return _Factor(shortened(part.factor), tuple(thirds))


def seen_text(run: RunFacts) -> str:
    """Say why there is less to see than there may be; empty where everything is there."""
    if run.settings is not None and run.settings.obs == "state":
        return "The policy reads the simulator's state (obs=state): there is nothing to see."
    if not run.films:
        return "The run's folder holds no recording of what the policy saw."
    if not run.films.keys() & {"success", "failure"}:
        return "There was no evaluation to film."
    if "failure" not in run.films:
        return "No filmed episode failed."
    return "" if "success" in run.films else "No filmed episode succeeded."


def dump_rows(run: RunFacts) -> list[tuple[str, str, str]]:
    """Return the failures that were kept: file, what is in it, and the command that replays it."""
    rows = []
    for dump in run.dumps:
        failures = [f"environment {env_id}, step {step}: {cause}" for env_id, cause, step in dump.failures]
        rows.append((dump.path.name, shortened("; ".join(failures)), command_line("replay", f"dump={dump.path}")))
    return rows


def event_rows(run: RunFacts) -> list[tuple[str, str, str]]:
    """Return what befell the run's processes: time, event, facts."""
    rows = []
    for event in run.events:
        time = event.time.strftime("%Y-%m-%d %H:%M:%S") if event.time is not None else NOTHING
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in event.facts.items() if value != "")
        rows.append((time, shortened(event.name), shortened(facts)))
    return rows


def restart_rows(run: RunFacts) -> list[tuple[str, ...]]:
    """Return the processes that died and were replaced: time, cause, iterations before and after, what changed."""
    return [
        (
            _clock(entry.time),
            shortened(f"{entry.cause}: {entry.detail}"),
            count(entry.iteration),
            f"iteration {entry.from_iteration:,}" if entry.from_iteration else "the start",
            shortened(entry.note),
        )
        for entry in run.data.restarts
    ]


def contact_text(run: RunFacts) -> str:
    """Say how full the solver's contact buffers were; empty where that is not known."""
    used = (run.data.contacts or {}).get("share")
    return f"The solver's contact buffers were {share(used)} full at most." if _is_number(used) else ""


def version_rows(run: RunFacts) -> Sequence[tuple[str, str]]:
    """Return versions of packages, name and version."""
    return [(shortened(name), shortened(version)) for name, version in run.data.versions.items()]
