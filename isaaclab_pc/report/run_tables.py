# SPDX-License-Identifier: BSD-3-Clause
"""The findings, facts and tables of a run's page, as plain values."""

from __future__ import annotations

from typing import NamedTuple

from isaaclab_pc.cli.command_line import override_value
from isaaclab_pc.cli.task_names import resolve_task, short_name
from isaaclab_pc.report.read_run import RunFacts, read_time, total
from isaaclab_pc.report.words import NOTHING, count, duration, shortened
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.run import SETTINGS

__all__ = ["SettingRow", "event_rows", "facts", "findings", "restart_rows", "setting_rows", "task_name"]


def task_name(run: RunFacts) -> str:
    """Return the task's short name, or the id of another package's task."""
    return short_name(shortened(run.data.task))


def findings(run: RunFacts) -> list[tuple[bool, str]]:
    """Return sentences that a reader should see first, each with whether something failed, failures first."""
    data = run.data
    bad = []
    if data.status in ("failed", "storm"):
        bad.append(f"The run ended early: {shortened(data.error or 'it did not say why')}")
    skipped = total(run.curves.metrics.get("Learner/skipped_updates", ())) if run.curves is not None else 0
    if skipped:
        bad.append(f"{skipped:,.0f} updates were skipped because loss, gradient or weights were not finite.")
    if (run.contact_share or 0) >= 1:
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
    return [*((True, text) for text in bad), *((False, text) for text in notes)]


def facts(run: RunFacts) -> list[tuple[str, str]]:
    """Return facts about the run, name and value."""
    data = run.data
    size = count(data.num_envs) if isinstance(data.num_envs, int) else data.num_envs
    batch = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in (data.batch or {}).items())
    return [
        ("Task", data.task),
        ("Library", data.runner),
        ("Algorithm", data.algorithm + (f", teacher {data.teacher}" if data.teacher else "")),
        ("Physics", data.physics or NOTHING),
        ("Device", data.device or NOTHING),
        ("Environments", size if data.earlier_search is None else f"{size}, found by an earlier run"),
        ("Batch", batch or NOTHING),
        ("Started", _clock(data.started)),
        ("Ended", _clock(data.ended) if data.ended else NOTHING),
        ("Build", duration(data.build_s)),
        ("Commit", data.git or NOTHING),
    ]


def _clock(text: str) -> str:
    time = read_time(text)
    return time.strftime("%Y-%m-%d %H:%M:%S %Z") if time is not None else text


class SettingRow(NamedTuple):
    """A setting of a run."""

    key: str
    """Dotted name."""

    value: str
    """In Hydra's grammar, as a command line has it."""

    default: str
    """The same of its default; for those of task and agent, their owner."""

    meaning: str

    @property
    def is_changed(self) -> bool:
        """Whether it differs from its default."""
        return self.value != self.default


def setting_rows(settings: RunSettings | None) -> list[SettingRow]:
    """Return the settings of a run; those of task and agent as far as they were given."""
    if settings is None:
        return []
    values, defaults = settings.flat(), RunSettings().flat()
    # The default is a short name, of which the run knows the id.
    defaults["task"] = resolve_task(defaults["task"])
    rows = [
        SettingRow(key, override_value(values[key]), override_value(defaults[key]), setting.meaning)
        for key, setting in SETTINGS.items()
    ]
    for override in (*settings.env_overrides, *settings.agent_overrides):
        key, _, value = override.partition("=")
        rows.append(SettingRow(key, value, "the task's" if key.startswith("env.") else "the agent's", ""))
    return rows


def event_rows(run: RunFacts) -> list[tuple[str, str, str]]:
    """Return what befell the run's processes: time, event, facts."""
    rows = []
    for event in run.events:
        time = event.time.strftime("%Y-%m-%d %H:%M:%S") if event.time is not None else NOTHING
        known = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in event.facts.items() if value != "")
        rows.append((time, shortened(event.name), shortened(known)))
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
