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


def experiment_name(cfg: Any) -> str:
    if not isinstance(cfg, dict):
        return cfg.experiment_name
    return cfg["params"]["config"]["name"] if "params" in cfg else cfg["agent"]["experiment"]["directory"]


@pytest.mark.parametrize("size", ["default", "large"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_library_gets_the_settings_under_the_tasks_name(register: Callable, runner: str, size: str) -> None:
    register(ppo=ppo.REACH)
    cfg: Any = load_cfg_from_registry(TASK_ID, agent_key(runner, size))
    settings = ppo.sizes(ppo.REACH)[size]
    adapter = load_adapter(runner)
    assert adapter.max_iterations(cfg) == settings.max_iterations
    assert adapter.batch_target(cfg) == (
        settings.samples_per_update,
        settings.samples_per_update // settings.num_minibatches,
    )
    # Stable-Baselines3's configurations have no name.
    assert runner == "sb3" or experiment_name(cfg) == "press_button"

    # Nobody shares a configuration.
    again: Any = load_cfg_from_registry(TASK_ID, agent_key(runner, size))
    assert again is not cfg
    assert again == cfg if isinstance(cfg, dict) else again.to_dict() == cfg.to_dict()


def test_the_large_size_has_more_samples_in_minibatches_that_hardly_grow() -> None:
    large = ppo.sizes(ppo.REACH)["large"]
    assert large.samples_per_update > ppo.REACH.samples_per_update
    growth = large.samples_per_update / ppo.REACH.samples_per_update
    assert growth <= 2 * large.num_minibatches / ppo.REACH.num_minibatches
    assert large.max_iterations == ppo.REACH.max_iterations


@pytest.mark.parametrize(
    ("task", "of_ppo", "of_distillation"),
    [
        ("IsaacPC-Reach-Franka-Direct", ppo.REACH, REACH),
        ("IsaacPC-Lift-Cube-Franka-Direct", ppo.DEFAULT, DEFAULT),
        ("IsaacPC-Insert-Peg-Franka-Direct", ppo.DEFAULT, PRECISE),
    ],
)
def test_tasks_have_the_hyperparameters_that_were_found_for_them(task: str, of_ppo: Any, of_distillation: Any) -> None:
    import isaaclab_pc.tasks  # noqa: F401 (registers them)

    cfg: Any = load_cfg_from_registry(task, agent_key("rsl_rl", "default"))
    assert (cfg.max_iterations, cfg.algorithm.gamma) == (of_ppo.max_iterations, of_ppo.gamma)
    cfg = load_cfg_from_registry(task, agent_key("rsl_rl", "default", "distill"))
    assert (cfg.max_iterations, cfg.algorithm) == (of_distillation.max_iterations, of_distillation.algorithm)


def test_a_task_may_bring_hyperparameters_of_its_own(register: Callable) -> None:
    register(ppo=replace(ppo.DEFAULT, gamma=0.87), distill=replace(DEFAULT, max_iterations=7))
    load: Any = load_cfg_from_registry
    assert load(TASK_ID, agent_key("rsl_rl", "large")).algorithm.gamma == 0.87
    assert load(TASK_ID, agent_key("rsl_rl", "default", "distill")).max_iterations == 7


def test_registering_loads_no_torch() -> None:
    code = "import sys, isaaclab_pc.tasks; assert not {'torch', 'isaaclab'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("env", ["my_env:MyEnv", "package.task.env", "MyEnv"])
def test_an_environment_that_stands_in_no_folder_has_no_short_name(env: str) -> None:
    with pytest.raises(ConfigError, match=f"env='{env}'"):
        register_task(TASK_ID, env=env, env_cfg="others.press_button.cfg:PressCfg")
    assert TASK_ID not in gym.registry
