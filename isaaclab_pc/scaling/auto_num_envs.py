# SPDX-License-Identifier: BSD-3-Clause
"""``num_envs=auto`` for a config: what the scaler needs to know of a run, and what the user sees of the search."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import worker_command
from isaaclab_pc.physics import HEADROOM, grown
from isaaclab_pc.scaling import FitResult, Outcome, ProbeError, ScalingSettings, Trial, fit
from isaaclab_pc.scaling.fit import Changes
from isaaclab_pc.settings import RunSettings

__all__ = ["adapt", "changed", "find_num_envs", "profile_key"]

SMALLEST_MINIBATCH = 64
"""Samples below which a minibatch is not halved to save memory: its gradient says too little."""


def find_num_envs(
    run: RunSettings,
    settings: ScalingSettings,
    versions: Mapping[str, str],
    keep: Callable[[Trial], None],
    *,
    processes: int = 1,
    reserve: int = 0,
) -> FitResult:
    """Find the number of environments, showing each trial.

    Args:
        run: The run's settings, device and physics backend settled.
        settings: How to search.
        versions: Versions of the packages that matter.
        keep: Called with each trial.
        processes: As for :func:`~isaaclab_pc.scaling.fit`.
        reserve: Likewise.

    Returns:
        The answer; its reason has been printed.

    Raises:
        ConfigError: No size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    print("num_envs=auto: trying sizes (real rollouts and updates in child processes)", flush=True)

    def command(num_envs: int, result: Path, changes: Changes) -> list[str]:
        path = result.with_suffix(".yaml")
        changed(run, changes).save(path)
        return worker_command("probe", path, num_envs=num_envs, result=result)

    def report(trial: Trial) -> None:
        if trial.extra.get("config_error"):
            return  # the error itself follows, without the trial's numbers
        keep(trial)
        print(f"  {trial}", flush=True)
        for line, count in trial.extra.get("floods", ()):
            print(f"    native code printed {count} lines such as: {line}", flush=True)

    try:
        key, label = profile_key(run, versions), _label(run, settings)
        result = fit(command, settings, key, report, adapt=adapt, label=label, processes=processes, reserve=reserve)
    except ProbeError as error:
        if error.trial.extra.get("config_error"):
            raise ConfigError(error.trial.detail) from None
        raise
    print(result.reason, flush=True)
    if result.changes:
        print(f"with {' '.join(f'{name}={value}' for name, value in result.changes.items())}, as its trial", flush=True)
    return result


def adapt(trial: Trial, changes: Changes) -> Changes | None:
    """Tell which settings may cure a trial.

    Contact buffers that overflowed, or have little room left, are grown from their high-water marks: a trained policy
    makes more contacts than a fresh one. Where memory ran out in an update, not in a rollout, minibatches are halved
    before the search goes to fewer environments.

    Args:
        trial: A size that was tried.
        changes: The settings that it was tried with besides the user's.

    Returns:
        All settings for the next trial of this size; None where no setting helps.
    """
    usage, buffers = trial.extra.get("contacts"), trial.extra.get("physx_buffers")
    new: dict[str, Any] = {}
    if trial.outcome in (Outcome.FITS, Outcome.OVERFLOW):
        if usage:
            new = {f"physics.{name}": capacity for name, capacity in grown(usage).items()}
        elif buffers:
            new = {f"env.sim.physics.{name}": math.ceil(HEADROOM * size) for name, size in buffers.items() if size}
    elif trial.outcome in (Outcome.OOM, Outcome.OVER_BUDGET) and trial.extra.get("phase") == "update":
        smaller = trial.extra["minibatch_size"] // 2
        if smaller >= SMALLEST_MINIBATCH:
            new = {"minibatch_size": smaller}
    return {**changes, **new} if new else None


def changed(settings: RunSettings, changes: Changes) -> RunSettings:
    """Return the settings with changes.

    Args:
        settings: The run's settings.
        changes: Values by dotted setting, or by ``env.*`` field.
    """
    env = [f"{name}={value}" for name, value in changes.items() if name.startswith("env.")]
    values = {name: value for name, value in changes.items() if not name.startswith("env.")}
    return settings.with_values({**values, "env_overrides": [*settings.env_overrides, *env]})


def _label(run: RunSettings, settings: ScalingSettings) -> str:
    """Return what a search is for, in words for a list of them."""
    budget = [] if settings.budget is None else [f"scaling.budget={settings.budget}"]
    given = [*budget, *run.env_overrides, *run.agent_overrides]
    where = f"obs={run.obs}, {run.runner}, {run.physics.backend}, {settings.device}"
    return " ".join([f"{run.task} ({where}, {settings.resolved_objective})", *given])


def profile_key(run: RunSettings, versions: Mapping[str, str]) -> dict[str, str]:
    """Return what the best number of environments depends on, besides the machine and the search.

    Args:
        run: The run's settings.
        versions: Versions of the packages that matter.

    Returns:
        Text by name; the code of this package, its tasks and agents is in it as a hash.
    """
    irrelevant = {"num_envs", "seed", "max_iterations", "resume", "scaling", "eval", "device"}
    relevant = {key: value for key, value in run.model_dump().items() if key not in irrelevant}
    package = Path(__file__).parents[1]
    # tasks and agents may be links, which rglob does not follow by itself.
    folders = (package, package / "tasks", package / "agents")
    code = hashlib.sha256()
    for file in sorted({file.resolve() for folder in folders for file in folder.rglob("*.py")}):
        code.update(file.read_bytes())
    return {
        "task": run.task,
        "config": json.dumps(relevant, sort_keys=True),
        "versions": json.dumps(dict(versions), sort_keys=True),
        "code": code.hexdigest(),
    }
