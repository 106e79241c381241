# SPDX-License-Identifier: BSD-3-Clause
"""The learning libraries: a folder each, all behind the same :class:`Adapter` and :class:`Runner`.

Importing this package loads neither torch nor a library; :func:`load_adapter` does.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.learners.common.checkpoint_file import NonFiniteError, check_header, check_intact, read_header
from isaaclab_pc.learners.common.interface import Adapter, Decision, LearnerOptions, Runner, TeacherPolicy
from isaaclab_pc.utils.packages import is_installed, wrong_versions

__all__ = [
    "RUNNERS",
    "Adapter",
    "Decision",
    "LearnerOptions",
    "NonFiniteError",
    "Runner",
    "TeacherPolicy",
    "agent_key",
    "check_header",
    "check_intact",
    "load_adapter",
    "read_header",
    "require_library",
]


@dataclass(frozen=True)
class Library:
    """A learning library that need not be loaded."""

    module: str
    """Its import name."""

    requirement: str
    """Argument of ``pip install`` that installs it."""


RUNNERS: Mapping[str, Library] = {
    "rsl_rl": Library("rsl_rl", "rsl-rl-lib"),
    "rl_games": Library("rl_games", "isaaclab_pc[rl_games]"),
    "skrl": Library("skrl", "isaaclab_pc[skrl]"),
    "sb3": Library("stable_baselines3", "isaaclab_pc[sb3]"),
}
"""The learning libraries by the value of ``runner``, which is also the name of the library's folder in this package."""


def require_library(name: str) -> None:
    """Refuse a learning library that is unknown, or is not installed in a version that fits, without loading it.

    Raises:
        ConfigError: The message names the near ones, or says what to install.
    """
    if name not in RUNNERS:
        raise ConfigError(f"unknown runner '{name}': {closest(name, RUNNERS)}")

    if not is_installed(RUNNERS[name].module):
        others = [other for other, library in RUNNERS.items() if is_installed(library.module)]
        alternative = f", or use runner={others[0]}" if others else ""
        raise ConfigError(f'runner={name} is not installed: pip install "{RUNNERS[name].requirement}"{alternative}.')

    if wrong := wrong_versions(name):
        raise ConfigError(f'runner={name}: {"; ".join(wrong)}: pip install "{RUNNERS[name].requirement}".')


def load_adapter(name: str) -> Adapter:
    """Import an adapter and with it its learning library.

    Raises:
        ConfigError: There is no such adapter, or its library is not installed.
    """
    require_library(name)
    return importlib.import_module(f"{__name__}.{name}.adapter").ADAPTER


def agent_key(runner: str, agent: str, algorithm: str = "ppo") -> str:
    """Return the key of a task's configuration in ``gym.register``, as Isaac Lab's own command line has it."""
    size = [] if agent == "default" else [agent]
    learning = [] if algorithm == "ppo" else [algorithm]
    return "_".join([runner, *size, *learning, "cfg_entry_point"])
