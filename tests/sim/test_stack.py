# SPDX-License-Identifier: BSD-3-Clause
"""The stack task: where episodes start, and what counts as success."""

import math
from collections.abc import Callable

import pytest
import torch

from isaaclab_pc.envs import manipulation
from isaaclab_pc.tasks.stack.stack_env_cfg import CUBE_EDGE

pytestmark = pytest.mark.sim

NUM_ENVS, RESETS = 20, 50
GRIPPER = math.hypot(0.063, 0.0105)  # [m], from the tool's axis to the outer corner of an open finger
REST_STEPS = 15


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Stack-Cube-Franka-Direct", NUM_ENVS, obs="state")


def test_a_thousand_starts_are_valid_and_differ(env) -> None:
    starts = []
    for _ in range(RESETS):
        env._reset_idx(torch.arange(NUM_ENVS))
        starts.append(torch.stack([env.cube_a_pos, env.cube_b_pos, env.goal_pos]))
        assert (env.tool_pos[:, 2] > 0.2).all()
    cube_a, cube_b, goal = torch.cat(starts, dim=1)
    for cube in (cube_a, cube_b):
        torch.testing.assert_close(cube[:, 2], torch.full((len(cube),), CUBE_EDGE / 2), atol=1e-5, rtol=0.0)
        assert ((cube[:, 0] > 0.3) & (cube[:, 0] < 0.7)).all()
        assert (cube[:, 1].abs() < 0.25).all()
        assert (cube[:, :2].std(dim=0) > 0.05).all()
    # The gripper fits around one cube without touching the other.
    assert ((cube_a - cube_b).norm(dim=1) > GRIPPER + CUBE_EDGE / math.sqrt(2.0)).all()
    torch.testing.assert_close(
        goal - cube_b, torch.tensor([[0.0, 0.0, CUBE_EDGE]]).expand_as(goal), atol=1e-5, rtol=0.0
    )


def test_success_is_cube_a_resting_on_cube_b(env) -> None:
    env.reset(seed=5)
    offset = torch.zeros(NUM_ENVS, 3)
    offset[1, 0], offset[2, 2], offset[3, 1] = 0.015, 0.03, 0.08
    ids, upright = torch.arange(NUM_ENVS), manipulation.upright(torch.zeros(NUM_ENVS))
    manipulation.place(env, env.cube_b, ids, env.cube_b_pos, upright)
    manipulation.place(env, env.cube_a, ids, env.stack_pos + offset, upright)
    assert env.stacked[:4].tolist() == [True, True, False, False]
    velocity = torch.zeros(NUM_ENVS, 6)
    velocity[0, 0], velocity[1, 5] = 0.05, 1.0
    env.cube_a.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids.int())
    assert env._success()[:5].tolist() == [False, False, False, False, True]
    terms = env._reward_terms()
    assert terms["success"][4] == 1.0
    # Each stage is worth more than the one before, and one of them counts.
    assert (terms["release"][:2] > 6.0 / 8.0).all()
    assert (terms["release"][:2] < 1.0).all()
    assert ((torch.stack(list(terms.values())) > 0.0).sum(dim=0) == 1).all()


def test_a_stack_stays_up(env) -> None:
    env.reset(seed=5)
    ids, upright = torch.arange(NUM_ENVS), manipulation.upright(torch.linspace(-0.7, 0.7, NUM_ENVS))
    manipulation.place(env, env.cube_a, ids, env.stack_pos, upright)
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    actions[:, -1] = 1.0
    for _ in range(REST_STEPS):
        env.step(actions)
    assert env.stacked.all()
    assert env._success().float().mean() >= 0.9


def test_the_next_simulation_of_the_process_collides_boxes_its_own_way(env, backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("only MuJoCo Warp keeps what it collided")
    from mujoco_warp import GeomType
    from mujoco_warp._src.collision_primitive import _PRIMITIVE_COLLISION_TYPES

    boxes = (GeomType.BOX, GeomType.BOX)
    assert boxes in _PRIMITIVE_COLLISION_TYPES
    # No test may follow in this file: they share the environment.
    env.close()
    assert boxes not in _PRIMITIVE_COLLISION_TYPES
