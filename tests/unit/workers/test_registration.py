# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that are registered for a single environment, and those of several agents: refused before they start."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.workers.resolve import resolve

TASK = "IsaacPC-Test-Registration-Franka-Direct"
REACH = "isaaclab_pc.tasks.reach.reach_env_cfg:ReachEnvCfg"


@pytest.fixture
def resolved() -> Iterator[Callable]:
    """Register a task as its package may do, and resolve it."""

    def resolved(env_cfg: Any = REACH, **fields: Any) -> Any:
        agents = gym.spec("IsaacPC-Reach-Franka-Direct").kwargs
        given = {"entry_point": "others.task.env:Env", **fields}
        gym.register(TASK, kwargs={**agents, "env_cfg_entry_point": env_cfg}, **given)
        return resolve(compose([f"task={TASK}", "device=cpu", "physics=newton_mjwarp"]), 4)

    yield resolved
    gym.registry.pop(TASK, None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_episode_steps": 50}, "max_episode_steps=50"),
        ({"max_episode_steps": -1}, "max_episode_steps=-1"),
        ({"entry_point": None, "vector_entry_point": "others.task.env:VectorEnv"}, "vector_entry_point"),
    ],
)
def test_what_fails_in_a_training_is_refused_by_its_name(resolved: Callable, fields: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{TASK} .*{named}"):
        resolved(**fields)


def test_a_registration_for_many_environments_is_resolved(resolved: Callable) -> None:
    assert resolved().settings.task == TASK


@pytest.mark.parametrize("agents_of", ["DirectMARLEnvCfg", "ManagerBasedEnvCfg"])
def test_tasks_that_no_single_agent_learns_are_refused(resolved: Callable, agents_of: str) -> None:
    import isaaclab.envs

    with pytest.raises(ConfigError, match=rf"^{TASK} .*{agents_of}"):
        resolved(env_cfg=getattr(isaaclab.envs, agents_of))


def test_isaac_labs_own_tasks_of_several_agents_are_refused_whatever_the_library() -> None:
    for runner in ("rsl_rl", "skrl"):
        settings = compose([f"runner={runner}", "algorithm=ppo", "device=cpu", "physics=newton_mjwarp"])
        with pytest.raises(ConfigError, match=r"^Isaac-Pendulum-MARL-Direct .*Cfg"):
            resolve(settings.with_values({"task": "Isaac-Pendulum-MARL-Direct"}), 4)
