# SPDX-License-Identifier: BSD-3-Clause
"""``num_envs=auto`` for a config: what the scaler needs to know of a run, and what the user sees of the search."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling import FitResult, ProbeError, ScalingSettings, Trial, fit
from isaaclab_pc.workflows.process import worker_command

__all__ = ["find_num_envs", "profile_key"]


def find_num_envs(
    config: Mapping[str, Any],
    settings: ScalingSettings,
    config_path: Path,
    versions: Mapping[str, str],
    keep: Callable[[Trial], None],
) -> FitResult:
    """Find the number of environments, showing each trial.

    Args:
        config: The run's plain config, device and physics backend settled.
        settings: How to search.
        config_path: The file that holds the config, for the children.
        versions: Versions of the packages that matter.
        keep: Called with each trial.

    Returns:
        The answer; its reason has been printed.

    Raises:
        ConfigError: No size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    print("num_envs=auto: trying sizes (real rollouts and updates in child processes)", flush=True)

    def command(num_envs: int, result: Path) -> list[str]:
        return worker_command("probe", config_path, num_envs=num_envs, result=result)

    def report(trial: Trial) -> None:
        if trial.extra.get("config_error"):
            return  # the error itself follows, without the trial's numbers
        keep(trial)
        print(f"  {trial}", flush=True)

    try:
        result = fit(command, settings, profile_key(config, versions), report)
    except ProbeError as error:
        if error.trial.extra.get("config_error"):
            raise ConfigError(error.trial.detail) from None
        raise
    print(result.reason, flush=True)
    return result


def profile_key(config: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """Return what the best number of environments depends on, besides the machine and the search.

    Args:
        config: The run's plain config.
        versions: Versions of the packages that matter.

    Returns:
        Text by name; the code of this package, its tasks and agents is in it as a hash.
    """
    irrelevant = {"num_envs", "seed", "max_iterations", "resume", "scaling", "eval", "device"}
    relevant = {key: value for key, value in config.items() if key not in irrelevant}
    package = Path(__file__).parents[1]
    # tasks and agents may be links, which rglob does not follow by itself.
    folders = (package, package / "tasks", package / "agents")
    code = hashlib.sha256()
    for file in sorted({file.resolve() for folder in folders for file in folder.rglob("*.py")}):
        code.update(file.read_bytes())
    return {
        "task": config["task"],
        "config": json.dumps(relevant, sort_keys=True),
        "versions": json.dumps(dict(versions), sort_keys=True),
        "code": code.hexdigest(),
    }
