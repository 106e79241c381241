# SPDX-License-Identifier: BSD-3-Clause
"""Registration of a task with gymnasium. Loads neither torch nor a simulator."""

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from isaaclab_pc.agents import distill as distillation
from isaaclab_pc.agents import ppo as from_rewards
from isaaclab_pc.agents.distill import DistillSettings
from isaaclab_pc.agents.ppo import PpoSettings
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS, agent_key


def register_task(
    task_id: str,
    env: str,
    env_cfg: str,
    *,
    ppo: PpoSettings = from_rewards.DEFAULT,
    distill: DistillSettings = distillation.DEFAULT,
) -> None:
    """Register a task with an agent for every learning library, in every size.

    ``task_id`` is ``IsaacPC-<Verb>-<Object>-<Robot>-Direct``. Environment and configuration are named as
    ``module:Class``. The folder of the environment's module gives the task its short name, which is also what Isaac
    Lab's own ``isaaclab train`` calls the experiment. ``ppo`` and ``distill`` are hyperparameters.

    Raises:
        ConfigError: ``env`` names no class in a folder.
    """
    module, _, kind = env.partition(":")
    if not kind or "." not in module:
        raise ConfigError(
            f"{task_id}: env={env!r}: expected 'package.folder.module:Class', as the folder names the task."
        )
    short_name = module.split(".")[-2]

    agents = {}
    students = distillation.distill_sizes(distill)
    for size, settings in from_rewards.sizes(ppo).items():
        for runner in RUNNERS:
            agents[agent_key(runner, size)] = _config_maker(runner, "make_cfg", settings, short_name)
        # RSL-RL alone; for every task, as a policy that sees the state can teach any of them.
        student = students[size]
        goes_on = distillation.fine_tuning(settings, student)
        agents[agent_key("rsl_rl", size, "distill")] = _config_maker("rsl_rl", "make_distill_cfg", student, short_name)
        agents[agent_key("rsl_rl", size, "finetune")] = _config_maker(
            "rsl_rl", "make_finetune_cfg", goes_on, short_name
        )
    gym.register(
        id=task_id,
        entry_point=env,
        disable_env_checker=True,
        kwargs={"env_cfg_entry_point": env_cfg, "default_agent": "rsl_rl", **agents},
    )


def _config_maker(runner: str, function: str, settings: Any, experiment: str) -> Callable[[], Any]:
    """Return a function that makes a new configuration for a learning library, as Isaac Lab asks for it."""

    # A ``module:name``, which Isaac Lab also takes, would not know the name of the experiment.
    def make_cfg() -> Any:
        # Not before it is asked for: the libraries' configurations load torch.
        module = importlib.import_module(f"isaaclab_pc.learners.{runner}.cfg")
        return getattr(module, function)(settings, experiment)

    # Isaac Lab prints it when it loads the configuration.
    make_cfg.__qualname__ = f"{experiment}_{runner}_{function.removeprefix('make_')}"
    return make_cfg
