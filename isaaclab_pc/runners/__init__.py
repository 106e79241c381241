# SPDX-License-Identifier: BSD-3-Clause
"""The hand-off to the learning libraries: one adapter each, all behind the same :class:`Runner`.

Importing this package loads neither torch nor a library; the adapters load them.
"""

import importlib
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.runners.base import Decision, OnIteration, Runner
from isaaclab_pc.runners.checkpoint_file import NonFiniteError, check_header, read_extra

__all__ = [
    "RUNNERS",
    "Decision",
    "NonFiniteError",
    "OnIteration",
    "Runner",
    "check_header",
    "load_adapter",
    "make_runner",
    "read_extra",
]

RUNNERS = ("rsl_rl", "rl_games")
"""Names of the adapters, which are modules of this package."""


def load_adapter(name: str) -> Any:
    """Import an adapter and with it its learning library.

    Args:
        name: One of :data:`RUNNERS`.

    Returns:
        The module: ``make(env, agent_cfg, run_dir, device)``, ``agent_entry_point(agent)``, ``configure(...)``,
        ``batch_target(agent_cfg)`` and ``max_iterations(agent_cfg)``.

    Raises:
        ConfigError: There is no such adapter, or its library is not installed.
    """
    if name not in RUNNERS:
        raise ConfigError(f"unknown runner '{name}': {closest(name, RUNNERS)}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name:
            raise
        raise ConfigError(f'runner={name} is not installed: pip install "isaaclab_pc[{name}]"') from error


def make_runner(name: str, env: Any, agent_cfg: Any, run_dir: Path, device: str) -> Runner:
    """Build a runner around an environment.

    Args:
        name: One of :data:`RUNNERS`.
        env: The gym environment, or the library's own vectorized environment.
        agent_cfg: The library's configuration after the adapter's ``configure``; it is left as it is.
        run_dir: Where the library writes its logs.
        device: Where the networks live.

    Returns:
        The runner, its networks freshly initialized.

    Raises:
        ConfigError: As for :func:`load_adapter`.
    """
    return load_adapter(name).make(env, agent_cfg, run_dir, device)
