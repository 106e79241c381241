# SPDX-License-Identifier: BSD-3-Clause
"""The push task: where episodes start, and what counts as success."""

from collections.abc import Callable

import pytest
import torch

from isaaclab_pc.envs import manipulation
from isaaclab_pc.tasks.push.push_env_cfg import CUBE_EDGE, REGION_RADIUS

pytestmark = pytest.mark.sim

NUM_ENVS, RESETS = 20, 50


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Push-Cube-Franka-Direct", NUM_ENVS, obs="state")


def test_a_thousand_starts_are_valid_and_differ(env) -> None:
    cubes, goals, markers = [], [], []
    for _ in range(RESETS):
        env._reset_idx(torch.arange(NUM_ENVS))
        cubes.append(env.cube_pos)
        goals.append(env.goal_pos.clone())
        markers.append(manipulation.position(env, env.region))
    cube, goal, marker = torch.cat(cubes), torch.cat(goals), torch.cat(markers)
    torch.testing.assert_close(cube[:, 2], torch.full((len(cube),), CUBE_EDGE / 2), atol=1e-5, rtol=0.0)
    # Cube and region are on the table and before the arm, which starts above them.
    assert (cube[:, 0] > 0.3).all()
    assert (goal[:, 0] + REGION_RADIUS < 0.85).all()
    assert (goal[:, 1].abs() + REGION_RADIUS < 0.5).all()
    assert (env.tool_pos[:, 2] > 0.2).all()
    assert ((goal - cube)[:, :2].norm(dim=1) > REGION_RADIUS + CUBE_EDGE).all()
    assert (cube[:, :2].std(dim=0) > 0.02).all()
    assert ((goal - cube)[:, 1].std() > 0.03).all()
    # The policy sees the goal where it is.
    torch.testing.assert_close(marker[:, :2], goal[:, :2], atol=1e-5, rtol=0.0)


def test_success_is_the_cube_lying_with_its_centre_in_the_region(env) -> None:
    env.reset(seed=5)
    ids = torch.arange(NUM_ENVS)
    offset = torch.zeros(NUM_ENVS, 3)
    offset[0, 0], offset[1, 1], offset[2, 0] = 0.0, REGION_RADIUS - 0.005, -REGION_RADIUS - 0.005
    offset[3, 2] = 0.02
    offset[4:, 0] = -0.2
    upright = manipulation.upright(torch.zeros(NUM_ENVS))
    manipulation.place(env, env.cube, ids, env.goal_pos + offset, upright)
    assert env._success()[:5].tolist() == [True, True, False, False, False]
    total = torch.stack(list(env._reward_terms().values())).sum(0)
    assert total[:2].tolist() == [1.0, 1.0]
    assert (total[2:] < 0.7).all()
    # A cube beside the region is worth more the nearer the tool is to the side to push from.
    assert total[2] > 0.0


def test_a_cube_that_fell_off_the_table_ends_the_episode(env) -> None:
    env.reset(seed=5)
    position = env.cube_pos
    position[0] = torch.tensor([0.5, 0.7, -0.1])
    manipulation.place(env, env.cube, torch.arange(NUM_ENVS), position, manipulation.upright(torch.zeros(NUM_ENVS)))
    _, _, terminated, _, _ = env.step(torch.zeros(NUM_ENVS, env.cfg.action_space))
    assert terminated.tolist() == [True] + [False] * (NUM_ENVS - 1)
