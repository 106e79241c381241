# SPDX-License-Identifier: BSD-3-Clause
"""Findings, settings and next commands of a run, and differences between runs, as plain values."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from isaaclab_pc.cli.command_line import override_value
from isaaclab_pc.cli.task_names import resolve_task, short_name
from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.report.words import NOTHING, duration, memory, number, shortened
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.run import SETTINGS
from isaaclab_pc.terminal.program_name import command_line

_OF_ONE_RUN = ("task", "resume", "node_rank", "seed")
"""Settings that another run with the same settings does not take over."""


def task_name(run: RunFacts) -> str:
    """Return the task's short name, or the id of another package's task."""
    return short_name(shortened(run.data.task))


def findings(run: RunFacts) -> list[tuple[bool, str]]:
    """Return sentences that a reader should see first, each with whether something failed, failures first."""
    data = run.data
    bad = []
    if data.status in ("failed", "storm"):
        bad.append(f"The run ended early: {data.error or 'it did not say why'}")
    skipped = sum(filter(math.isfinite, run.metric("Learner/skipped_updates")))
    if skipped:
        bad.append(f"{number(skipped)} updates were skipped because loss, gradient or weights were not finite.")
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
    notes += [f"Not on this page: {problem}." for problem in run.problems]
    return [(True, text) for text in bad] + [(False, text) for text in notes]


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
    # The default is a short name; runs record the id.
    defaults["task"] = resolve_task(defaults["task"])
    rows = [
        SettingRow(key, override_value(values[key]), override_value(defaults[key]), setting.meaning)
        for key, setting in SETTINGS.items()
    ]
    for override in (*settings.env_overrides, *settings.agent_overrides):
        key, _, value = override.partition("=")
        rows.append(SettingRow(key, value, "the task's" if key.startswith("env.") else "the agent's", ""))
    return rows


# Commands


def commands(run: RunFacts) -> list[tuple[str, str]]:
    """Return purpose and text of the commands to go on with: evaluate, watch, resume, repeat, compare."""
    data, folder = run.data, run.folder
    best, latest = data.checkpoints.best, data.checkpoints.latest
    found = []
    if latest is not None:
        found.append(("Evaluate the newest policy", command_line("play", f"resume={folder}")))
        if best is not None and best.path != latest.path:
            found.append(("Evaluate the best one", command_line("play", f"resume={folder / best.path}")))
        found.append(("Watch it in a browser", command_line("play", f"resume={folder}", "visualizer=viser")))
        found.append(_resume_command(run))
    if run.settings is not None:
        found.append(("The same settings with another seed", again(run, "train", seed=run.settings.seed + 1)))
    found.append(("Compare it with another run", f"{command_line('report', folder)} <other run>"))
    found.append(("This page again", command_line("report", folder)))
    return found


def _resume_command(run: RunFacts) -> tuple[str, str]:
    data = run.data
    if data.status == "completed" and data.max_iterations is not None:
        more = f"max_iterations={2 * data.max_iterations}"
        return "Train it longer", command_line("train", f"resume={run.folder}", more)
    harder = [f"physics.{name}={value!r}" for name, value in (data.harder_physics or {}).items()]
    purpose = "Go on, with harder physics" if harder else "Go on"
    return purpose, command_line("train", f"resume={run.folder}", *harder)


def again(run: RunFacts, script: str, **changes: object) -> str:
    """Return the command of a script with the settings of a run, as far as they can be read, and changes to them."""
    changed = {row.key: row.value for row in setting_rows(run.settings) if row.is_changed}
    given = {key: value for key, value in changed.items() if key not in _OF_ONE_RUN}
    settings = {"task": short_name(run.data.task), **given, **changes}
    return command_line(script, *(f"{key}={value}" for key, value in settings.items()))


# Several runs


def measures(run: RunFacts) -> dict[str, str]:
    """Return result, cost and health of a run, by name."""
    data, last = run.data, run.last_evaluation
    success = last.success if last is not None else None
    so_far = " so far" if last is not None and data.evaluation is None else ""
    return {
        "Task": task_name(run),
        "Library": shortened(data.runner),
        "Status": data.status,
        "Success": f"{success or NOTHING}{so_far}",
        "Episodes": number(last.episodes if last else None),
        "Mean return": number(last.mean_return if last else None, ".2f"),
        "Iterations": number(data.completed_iterations),
        "Environment steps": number(data.env_steps),
        "Time": duration(data.wall_s),
        "Environments": str(data.num_envs),
        "Steps per second": number(run.speeds["total"]),
        "Peak memory": memory(data.peak_bytes),
        "Ended by the guard": number(sum(run.faults.values())),
        "Restarts": number(len(data.restarts)),
    }


def differences(runs: Sequence[RunFacts]) -> list[tuple[str, ...]]:
    """Return the settings, commits and versions that are not the same in all runs: a name, and a value for each run."""
    rows = [{row.key: row for row in setting_rows(run.settings)} for run in runs]
    pairs = list(zip(runs, rows, strict=True))
    defaults = {key: row.default for of_run in rows for key, row in of_run.items() if row.is_changed}
    found = {
        key: [_value(run, of_run[key].value if key in of_run else default, key) for run, of_run in pairs]
        for key, default in defaults.items()
    }
    found["commit"] = [run.data.git or NOTHING for run in runs]
    for package in dict.fromkeys(package for run in runs for package in run.data.versions):
        found[f"version of {package}"] = [run.data.versions.get(package, NOTHING) for run in runs]
    return [tuple(map(shortened, (name, *values))) for name, values in found.items() if len(set(values)) > 1]


def _value(run: RunFacts, value: str, key: str) -> str:
    """Return a setting's value in a run, as far as it is known and has a meaning there."""
    if run.settings is None:
        return "unknown"
    return NOTHING if key in run.unused else value
