# SPDX-License-Identifier: BSD-3-Clause
"""Every registered task: its agents load, and with each kind of observation it resets, steps and keeps to its spaces.

A new task is picked up by its registration.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
import torch
from isaaclab_tasks.utils import load_cfg_from_registry

from benchmarks.host_syncs import count_launches, count_syncs, ways_of_cuda
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.envs.kept import StandingState
from isaaclab_pc.envs.quantities import action_parts, vector_quantities
from isaaclab_pc.learners import RUNNERS
from tests.sim.checked_state import CheckedState
from tests.sim.test_host_syncs import unknown_waits

NUM_ENVS = 2

MOST_LAUNCHES = 120
"""What a step may launch on a GPU, in our code and in Isaac Lab's, without physics and renderer: 5 to 10 us of the host
each. ``benchmarks/host_syncs.py`` shows them by file and line."""
TASKS = list(our_tasks().values())


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_agents_of_each_library_in_both_sizes_and_each_configuration_loads(task: str) -> None:
    agents = {key.removesuffix("_cfg_entry_point") for key in gym.spec(task).kwargs if key.endswith("_cfg_entry_point")}
    assert {f"{runner}{size}" for runner in RUNNERS for size in ("", "_large")} <= agents
    for agent in agents - {"env"}:
        cfg: Any = load_cfg_from_registry(task, f"{agent}_cfg_entry_point")
        assert cfg if isinstance(cfg, dict) else cfg.to_dict(), agent


def check_observation(env: Any, observation: dict[str, torch.Tensor]) -> None:
    spaces = env.single_observation_space.spaces
    assert set(observation) == set(spaces)
    for group, value in observation.items():
        assert tuple(value.shape) == (NUM_ENVS, *spaces[group].shape), group
        assert value.numpy().dtype == spaces[group].dtype, group
        assert torch.isfinite(value).all(), group


def check_description(obs: str, env: Any) -> None:
    """Every number that a policy reads and writes is described, for those who run it outside of the simulator."""
    quantities = vector_quantities(env)
    assert sum(quantity.size for quantity in quantities) == env.single_observation_space["policy"].shape[0]
    assert obs == "state" or "task" not in {quantity.name for quantity in quantities}
    assert sum(part.size for part in action_parts(env)) == env.single_action_space.shape[0]


@pytest.mark.sim
@pytest.mark.parametrize("task", TASKS)
def test_a_task_resets_steps_and_keeps_to_its_spaces_with_every_observation(task: str, make_env: Callable) -> None:
    # One scene with camera and cloud serves all kinds: the state needs neither, the depth image needs the camera.
    env = make_env(task, NUM_ENVS, obs="points", **{"scene.points.source": "image"})
    for obs in ("state", "depth", "points"):
        env.cfg.obs = obs
        env._configure_gym_env_spaces()
        env.standing_state = CheckedState()
        observation, _ = env.reset(seed=1)
        assert set(observation) == {"policy", "critic"} | ({obs} - {"state"})
        check_description(obs, env)
        check_observation(env, observation)
        size = env.single_action_space.shape
        for _ in range(3):
            action = torch.rand(NUM_ENVS, *size) * 2.0 - 1.0
            observation, reward, terminated, truncated, extras = env.step(action)
            check_observation(env, observation)
            assert reward.shape == terminated.shape == truncated.shape == (NUM_ENVS,)
            assert torch.isfinite(reward).all()
            assert {"Metrics/success_rate", "Metrics/time_to_success"} <= set(extras["log"])

        assert env.standing_state.kept_reads > 0
        env.standing_state = StandingState()

    # A policy that sees clouds launches the most.
    with ways_of_cuda():
        launches = count_launches(env).counts
        assert unknown_waits(count_syncs(env, 1).counts) == []
    assert 30 < launches.total() <= MOST_LAUNCHES, launches
