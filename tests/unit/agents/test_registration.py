# SPDX-License-Identifier: BSD-3-Clause
"""The agents that a task is registered with, loaded as Isaac Lab loads them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest
from isaaclab_tasks.utils import load_cfg_from_registry

from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.distill import DEFAULT, PRECISE, REACH
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS, agent_key, load_adapter
from isaaclab_pc.tasks.registration import register_task

TASK_ID = "IsaacPC-Press-Button-Franka-Direct"


@pytest.fixture
def register() -> Iterator[Callable]:
    def register(**agent: Any) -> None:
        register_task(
            TASK_ID, env="others.press_button.env:PressButtonEnv", env_cfg="others.press_button.cfg:PressCfg", **agent
        )

    yield register
    gym.registry.pop(TASK_ID, None)


@pytest.fixture(params=[(runner, size) for runner in RUNNERS for size in ("default", "large")], ids="-".join)
def runner_and_size(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


def experiment_name(cfg: Any) -> str:
    if not isinstance(cfg, dict):
        return cfg.experiment_name
    return cfg["params"]["config"]["name"] if "params" in cfg else cfg["agent"]["experiment"]["directory"]


@pytest.mark.parametrize("agent", ppo.AGENTS)
def test_every_library_gets_the_settings_of_the_agent_under_the_tasks_name(
    register: Callable, runner_and_size: tuple[str, str], agent: str
) -> None:
    runner, size = runner_and_size
    register(agent=agent)
    cfg: Any = load_cfg_from_registry(TASK_ID, agent_key(runner, size))
    settings = ppo.sizes(ppo.AGENTS[agent])[size]
    adapter = load_adapter(runner)
    assert adapter.max_iterations(cfg) == settings.max_iterations
    assert adapter.batch_target(cfg) == (settings.samples_per_update, settings.minibatch_size)
    # Stable-Baselines3's configurations have no name.
    assert runner == "sb3" or experiment_name(cfg) == "press_button"


@pytest.mark.parametrize("agent", ppo.AGENTS)
def test_distillation_has_the_settings_of_the_agent_too(register: Callable, agent: str) -> None:
    register(agent=agent)
    cfg: Any = load_cfg_from_registry(TASK_ID, agent_key("rsl_rl", "default", "distill"))
    settings = {"default": DEFAULT, "reach": REACH, "precise": PRECISE}[agent]
    assert cfg.max_iterations == settings.max_iterations
    assert cfg.algorithm.expert_share_samples == settings.expert_share_samples


def test_a_task_may_bring_hyperparameters_of_its_own(register: Callable) -> None:
    register(ppo=replace(ppo.DEFAULT, gamma=0.87), distill=replace(DEFAULT, max_iterations=7))
    load: Any = load_cfg_from_registry
    assert load(TASK_ID, agent_key("rsl_rl", "large")).algorithm.gamma == 0.87
    assert load(TASK_ID, agent_key("rsl_rl", "default", "distill")).max_iterations == 7


def test_nobody_shares_a_configuration(register: Callable, runner_and_size: tuple[str, str]) -> None:
    register()
    first: Any = load_cfg_from_registry(TASK_ID, agent_key(*runner_and_size))
    second: Any = load_cfg_from_registry(TASK_ID, agent_key(*runner_and_size))
    assert first is not second
    assert first == second if isinstance(first, dict) else first.to_dict() == second.to_dict()


def test_a_new_task_learns_with_the_default_agent(register: Callable) -> None:
    register()
    cfg: Any = load_cfg_from_registry(TASK_ID, "rsl_rl_cfg_entry_point")
    assert cfg.max_iterations == ppo.DEFAULT.max_iterations


def test_a_misspelt_agent_registers_nothing(register: Callable) -> None:
    with pytest.raises(ConfigError, match=r"'rech'.*did you mean reach\?"):
        register(agent="rech")
    assert TASK_ID not in gym.registry


def test_reach_keeps_its_own_agent_and_the_others_the_default_one() -> None:
    import isaaclab_pc.tasks  # noqa: F401 (registers them)

    reach: Any = load_cfg_from_registry("IsaacPC-Reach-Franka-Direct", "rsl_rl_cfg_entry_point")
    lift: Any = load_cfg_from_registry("IsaacPC-Lift-Cube-Franka-Direct", "rsl_rl_cfg_entry_point")
    assert (reach.experiment_name, reach.max_iterations) == ("reach", ppo.REACH.max_iterations)
    assert (lift.experiment_name, lift.max_iterations) == ("lift", ppo.DEFAULT.max_iterations)


def test_registering_loads_no_torch() -> None:
    code = "import sys, isaaclab_pc.tasks; assert not {'torch', 'isaaclab'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("env", ["my_env:MyEnv", "package.task.env", "MyEnv"])
def test_an_environment_that_stands_in_no_folder_has_no_short_name(env: str) -> None:
    with pytest.raises(ConfigError, match=f"env='{env}'"):
        register_task(TASK_ID, env=env, env_cfg="others.press_button.cfg:PressCfg")
    assert TASK_ID not in gym.registry
