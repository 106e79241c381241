# SPDX-License-Identifier: BSD-3-Clause
"""The lift task is physically solvable: the expert's grasp lifts the cube, holds it, and only the grip holds it."""

from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.sim

NUM_ENVS, ENOUGH = 64, 58
HOLD_S = 2.0
LIFTED = 0.1  # [m], the lower edge of a goal less the success distance and then some
GRASP_S, DROP_S = 5.0, 1.0  # time for a second try


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.obs = "state"
        cfg.episode_length_s = 60.0

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


@pytest.fixture(scope="module")
def held(env) -> dict[str, torch.Tensor]:
    """Grasp, carry to the goal and stay; what was seen in the last two seconds, all (N,)."""
    env.reset(seed=7)
    start = {"cube": env.cube_pos.clone(), "quat": env.cube_quat.clone(), "goal": env.goal_pos.clone()}
    policy = env.expert()
    lowest = torch.full((NUM_ENVS,), float("inf"))
    for step in range(round((GRASP_S + HOLD_S) / env.step_dt)):
        env.step(policy())
        if step * env.step_dt >= GRASP_S:
            lowest = torch.minimum(lowest, env.cube_pos[:, 2])
    slip = torch.linalg.vector_norm(env.cube_pos - env.tool_pos, dim=1)
    return {**start, "lowest": lowest, "slip": slip, "grasped": env.grasped.clone(), "success": env._success().clone()}


def test_starts_differ_in_place_yaw_and_goal(held: dict[str, torch.Tensor]) -> None:
    assert torch.allclose(held["cube"][:, 2], torch.full((NUM_ENVS,), 0.025), atol=1e-3)
    assert held["cube"][:, 0].std() > 0.03
    assert held["cube"][:, 1].std() > 0.06
    yaw = 2.0 * torch.atan2(held["quat"][:, 2], held["quat"][:, 3])
    assert yaw.std() > 0.3
    assert (held["goal"].std(dim=0) > 0.03).all()


def test_the_cube_is_lifted_and_held(held: dict[str, torch.Tensor]) -> None:
    assert (held["lowest"] > LIFTED).sum() >= ENOUGH


def test_the_grasp_is_recognized_and_does_not_slip_away(held: dict[str, torch.Tensor]) -> None:
    assert held["grasped"].sum() >= ENOUGH
    assert (held["slip"] < 0.03).sum() >= ENOUGH


def test_a_cube_held_still_at_its_goal_is_success(held: dict[str, torch.Tensor]) -> None:
    assert held["success"].sum() >= ENOUGH


def test_an_opened_gripper_drops_the_cube(env, held: dict[str, torch.Tensor]) -> None:
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    actions[:, -1] = 1.0
    for _ in range(round(DROP_S / env.step_dt)):
        env.step(actions)
    assert (env.cube_pos[:, 2] < LIFTED).sum() >= ENOUGH
    assert not env.grasped.any()
