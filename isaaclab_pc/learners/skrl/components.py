# SPDX-License-Identifier: BSD-3-Clause
"""skrl's agent from a configuration in the layout of skrl's own runner: this package's, or one of another task."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skrl.agents.torch.ppo import PPO_CFG
from skrl.envs.wrappers.torch import Wrapper
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.runner.torch import Runner

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.learners.skrl.agent import GroupMemory, PolicySchedule, PpoAgent

__all__ = ["build_agent", "read_groups"]

_COMPONENTS = {"KLAdaptiveLR": PolicySchedule, "RunningStandardScaler": RunningStandardScaler}
"""Components by name, in place of text that skrl would evaluate as code."""

_NAMED = ("learning_rate_scheduler", "observation_preprocessor", "state_preprocessor", "value_preprocessor")


def read_groups(cfg: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the observation groups that actor and critic read; None for the models of skrl's own configurations."""
    policy = cfg["models"]["policy"]
    return (policy["actor"], policy["critic"]) if "actor" in policy else None


def build_agent(env: Wrapper, cfg: Mapping[str, Any], run_dir: Path, device: str) -> PpoAgent:
    """Build models and agent, which makes its memory in ``init``.

    Args:
        env: The environment, as skrl sees it.
        cfg: The whole configuration.
        run_dir: The run's folder; nothing is written there.
        device: Device of the networks.
    """
    components = _Components(env, cfg)
    spaces = {
        "observation_space": env.observation_space,
        "state_space": env.state_space,
        "action_space": env.action_space,
    }
    agent_cfg = components.agent_cfg(run_dir)
    for name, size in (("observation", env.observation_space), ("state", env.state_space), ("value", 1)):
        getattr(agent_cfg, f"{name}_preprocessor_kwargs").update(size=size, device=device)
    return PpoAgent(
        cfg=agent_cfg,
        models=components.models(spaces, device),
        memory=GroupMemory(memory_size=agent_cfg.rollouts, num_envs=env.num_envs, device=device),
        device=device,
        num_envs=env.num_envs,
        horizon=agent_cfg.rollouts,
        is_finite_horizon=getattr(env.cfg, "is_finite_horizon", False),
        **spaces,
    )


class _Components(Runner):
    """skrl's runner, for what it knows of configurations; its ``__init__`` would also seed every random generator."""

    def __init__(self, env: Wrapper, cfg: Mapping[str, Any]) -> None:
        self._env = env
        self._verbose = False
        self._cfg = self._check_cfg_compatibility(dict(cfg))

    def agent_cfg(self, run_dir: Path) -> PPO_CFG:
        """Return skrl's agent configuration, which writes nothing."""
        settings = self._process_cfg(self._cfg["agent"])
        scale = settings.pop("rewards_shaper_scale", None)
        if scale not in (None, 1.0):
            settings["rewards_shaper"] = lambda rewards, *_: rewards * scale
        nothing = {"experiment_name": ".", "write_interval": 0, "checkpoint_interval": 0}
        return PPO_CFG(**{**settings, "experiment": {"directory": str(run_dir), **nothing}})

    def models(self, spaces: Mapping[str, Any], device: str) -> dict[str, Any]:
        """Return the models by role."""
        if read_groups(self._cfg) is None:
            return self._generate_models(self._env, self._cfg)["agent"]

        settings = dict(self._cfg["models"]["policy"])
        module, _, name = settings.pop("class").partition(":")
        model = getattr(importlib.import_module(module), name)(**spaces, device=device, **settings)
        return {"policy": model, "value": model}

    def _process_cfg(self, cfg: Mapping[str, Any]) -> dict[str, Any]:
        """Return a section with components in the place of their names, which skrl's own method evaluates as code."""
        processed = {key: value for key, value in cfg.items() if key != "class"}
        for key, value in processed.items():
            if key.endswith("_kwargs"):
                processed[key] = dict(value or {})
            elif key in _NAMED and value is not None:
                if value not in _COMPONENTS:
                    raise ConfigError(f"agent.agent.{key}={value} is unknown: {closest(str(value), _COMPONENTS)}")
                processed[key] = _COMPONENTS[value]
        return processed
