# SPDX-License-Identifier: BSD-3-Clause
"""From a checked command line to the settings of one run, composed by Hydra."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import PhysicsSettings, RunSettings
from isaaclab_pc.settings.physics import BACKENDS

CONFIG_MODULE = "isaaclab_pc.conf"
CONFIG_NAME = "train"


def compose(settings: Sequence[str] = (), env: Sequence[str] = (), agent: Sequence[str] = ()) -> RunSettings:
    """Compose and check the settings of one run, the task's name resolved to its gym id.

    ``settings`` are ``key=value`` as Hydra reads it; ``env`` and ``agent`` are overrides ``env.*`` and ``agent.*``.

    Raises:
        ConfigError: Hydra or this package refuses a value.
    """
    store_settings()
    with _no_global_hydra(), initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        try:
            composed = hydra_compose(CONFIG_NAME, overrides=list(settings))
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(on_one_line(error)) from None
    return settings_of_composed(composed, env, agent)


def settings_of_composed(composed: DictConfig, env: Sequence[str] = (), agent: Sequence[str] = ()) -> RunSettings:
    """Check what Hydra composed, with further overrides; as :func:`compose`.

    Raises:
        ConfigError: A value is refused.
    """
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(on_one_line(error)) from None
    plain.pop("hydra", None)
    implied = _sim2real_overrides(plain) if plain["sim2real"] else ()
    plain["env_overrides"] = [*implied, *plain["env_overrides"], *env]
    plain["agent_overrides"] = [*plain["agent_overrides"], *agent]

    settings = RunSettings(**plain)
    return settings.with_values({"task": resolve_task(settings.task)})


def _sim2real_overrides(plain: dict[str, Any]) -> tuple[str, ...]:
    """Write what ``sim2real`` stands for where nothing else is given; returns its overrides."""
    if plain["obs"] != "points":
        raise ConfigError(
            f"sim2real=true with obs={plain['obs']}: only clouds are given a camera's errors. Use obs=points."
        )
    plain["points"]["realism"] = plain["points"]["realism"] or "mixed"
    plain["points"]["num_points"] = plain["points"]["num_points"] or 128
    return "env.randomization=hard", "env.history_length=3"


@functools.cache
def store_settings() -> None:
    """Put the names and defaults of all settings where Hydra finds them."""
    store = ConfigStore.instance()
    store.store(name="run_settings", node=RunSettings().model_dump())
    for backend in BACKENDS:
        store.store(group="physics", name=backend, node=PhysicsSettings(backend=backend).model_dump())


def on_one_line(error: BaseException) -> str:
    """Return the message of one of Hydra's errors, which may have many lines, on one."""
    return " ".join(str(error).split())


@contextlib.contextmanager
def _no_global_hydra() -> Iterator[None]:
    """Set a running Hydra application aside: only one may be initialized at a time."""
    state = GlobalHydra.get_state()
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.set_state(state)
