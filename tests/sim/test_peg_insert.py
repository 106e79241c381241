# SPDX-License-Identifier: BSD-3-Clause
"""The peg insertion task: true sizes, where episodes start, what the hole lets through, and what counts as success."""

import math
from collections.abc import Callable

import pytest
import torch
from isaaclab.utils.math import quat_apply, quat_apply_inverse, quat_from_angle_axis

from isaaclab_pc.envs import manipulation

pytestmark = pytest.mark.sim

NUM_ENVS, RESETS = 16, 63
TOLERANCE = 1e-4  # [m], for float32
PAD = (0, 2)


@pytest.fixture(scope="module")
def env(make_env: Callable):
    fields = {"scene.points.dtype": "float32", "scene.points.frame": "env"}
    return make_env("IsaacPC-Insert-Peg-Franka-Direct", NUM_ENVS, **fields)


def rectangle(pos: torch.Tensor, quat: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Return the corners on the table of upright boxes with half sizes (N, 2), shape (N, 4, 2)."""
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    corners = torch.nn.functional.pad(signs * half[:, None], (0, 1))
    return (pos[:, None] + quat_apply(quat[:, None].expand(-1, 4, -1).contiguous(), corners))[..., :2]


def gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the widest gap between two rectangles (N, 4, 2) along their sides, below 0 where they overlap."""
    sides = torch.cat([a[:, 1:3] - a[:, :2], b[:, 1:3] - b[:, :2]], dim=1)
    axes = sides / sides.norm(dim=-1, keepdim=True)
    on_a, on_b = a @ axes.transpose(1, 2), b @ axes.transpose(1, 2)
    return torch.maximum(on_a.amin(1) - on_b.amax(1), on_b.amin(1) - on_a.amax(1)).amax(dim=1)


def test_a_thousand_starts_are_valid_and_differ(env) -> None:
    starts = []
    for _ in range(RESETS):
        env._reset_idx(torch.arange(NUM_ENVS))
        peg = rectangle(env.peg_pos, env.peg_quat, torch.stack([env.half_length, env.radius], dim=1))
        box_pos = manipulation.position(env, env.box)
        box = rectangle(box_pos, env.box_quat, env.half_length[:, None].expand(-1, 2))
        assert (gap(peg, box) > 0.01).all()
        for corners in (peg, box):
            assert ((corners[..., 0] > 0.25) & (corners[..., 0] < 0.8)).all()
            assert (corners[..., 1].abs() < 0.6).all()
        torch.testing.assert_close(env.peg_pos[:, 2], env.radius, atol=1e-5, rtol=0.0)
        torch.testing.assert_close(box_pos[:, 2], env.half_length, atol=1e-5, rtol=0.0)
        # The fingers end 9 mm below the tool centre, the tallest box at 0.25 m.
        assert (env.tool_pos[:, 2] > 0.26).all()
        starts.append(torch.cat([env.peg_pos[:, :2], box_pos[:, :2]], dim=1))
    assert (torch.cat(starts).std(dim=0) > 0.02).all()


def test_every_point_lies_on_the_peg_or_the_box_at_their_true_sizes(env) -> None:
    points = env.reset(seed=3)[0]["points"][..., :3]
    offset = quat_apply_inverse(
        env.peg_quat[:, None].expand(-1, points.shape[1], -1).contiguous(), points - env.peg_pos[:, None]
    )
    half = torch.stack([env.half_length, env.radius, env.radius], dim=1)
    nearest = off_surface(offset, half[:, None])
    on_peg = nearest < TOLERANCE
    box_quat = env.box_quat[:, None].expand(-1, points.shape[1], -1).contiguous()
    in_box = quat_apply_inverse(box_quat, points - manipulation.position(env, env.box)[:, None])
    sizes = [spawn.size for spawn in env.box.cfg.spawn.assets_cfg]
    parts = [[*((*wall, (0.0, 0.0, 0.0)) for wall in size.walls()), *size.slopes()] for size in sizes]
    on_slope = torch.zeros_like(on_peg)
    for index in range(len(parts[0])):
        own = [parts[env_id % len(sizes)][index] for env_id in range(NUM_ENVS)]
        center, edges, turn = (torch.tensor(values)[:, None] for values in zip(*own, strict=True))
        angle = turn.norm(dim=-1)
        quat = quat_from_angle_axis(angle, turn / angle.clamp(min=1e-9)[..., None])
        local = quat_apply_inverse(quat.expand(-1, points.shape[1], -1).contiguous(), in_box - center)
        distance = off_surface(local, edges / 2)
        nearest = torch.minimum(nearest, distance)
        on_slope |= (angle > 0.0) & (distance < TOLERANCE)
    assert nearest.max() < TOLERANCE
    assert on_slope.any()
    assert (on_peg.sum(dim=1) > 3).all()
    assert ((~on_peg).sum(dim=1) > 50).all()


def off_surface(local: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Return the distance of points from the surface of a box about the origin [m]."""
    excess = local.abs() - half
    return torch.where((excess <= 0).all(-1), -excess.amax(-1), excess.clamp(min=0).norm(dim=-1))


def put_head(env, head: torch.Tensor) -> None:
    """Put the pegs in line with their holes, the heads at ``head`` in the frame of the hole [m], shape (N, 3)."""
    middle = head - torch.nn.functional.pad(env.half_length[:, None], PAD)
    position = env.hole_pos + quat_apply(env.box_quat, middle)
    manipulation.place(env, env.peg, torch.arange(NUM_ENVS), position, env.box_quat)


def stay(env, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(NUM_ENVS, env.cfg.action_space))


def test_pegs_of_all_sizes_rest_on_the_table_and_in_their_holes(env) -> None:
    env.reset(seed=4)
    stay(env, 10)
    torch.testing.assert_close(env.peg_pos[:, 2], env.radius, atol=5e-4, rtol=0.0)
    put_head(env, torch.nn.functional.pad(env.half_length[:, None], PAD))
    stay(env, 10)
    dropped = env.hole_pos[:, 2] - env.peg_pos[:, 2]
    torch.testing.assert_close(dropped, env.hole_radius - env.radius, atol=5e-4, rtol=0.0)


def test_a_peg_beside_its_mouth_is_stopped_and_one_on_the_chamfer_or_in_the_hole_goes_on(env) -> None:
    env.reset(seed=4)
    head = torch.nn.functional.pad((-env.half_length - 0.003)[:, None], PAD)
    size = env.cfg.scene.box.spawn.assets_cfg[0].size
    head[::4, 0] += 0.013 + size.chamfer_depth
    head[1::4, 1] = size.clearance + 0.5 * size.chamfer
    beside = size.clearance + size.chamfer + 0.002
    head[2::4, 1], head[3::4, 2] = -beside, beside
    put_head(env, head)
    velocity = torch.nn.functional.pad(
        quat_apply(env.box_quat, torch.tensor([[1.0, 0, 0]]).repeat(NUM_ENVS, 1)), (0, 3)
    )
    env.peg.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=torch.arange(NUM_ENVS).int())
    deepest = torch.full((NUM_ENVS,), -math.inf)
    for _ in range(5):
        stay(env, 1)
        deepest = torch.maximum(deepest, env.head_in_hole[:, 0] + env.half_length)
    assert (deepest[::4] > 0.03).all()
    assert (deepest[1::4] > 0.01).all()
    assert (deepest[2::4] < 0.005).all()
    assert (deepest[3::4] < 0.005).all()


def test_success_is_a_head_in_the_middle_of_the_hole(env) -> None:
    env.reset(seed=4)
    head = torch.zeros(NUM_ENVS, 3)
    head[1, 0], head[2, 0], head[3, 0], head[4, 1], head[5, 2] = -0.014, -0.016, 0.016, 0.03, 0.2
    put_head(env, head)
    success = env._success()
    assert success[:6].tolist() == [True, True, False, False, False, False]
    total = torch.stack(list(env._reward_terms().values())).sum(dim=0)
    torch.testing.assert_close(total[success], torch.ones(int(success.sum())))
    assert (total[~success] < 1.0).all()
    assert not env.grasped.any()


def test_a_peg_under_the_table_ends_the_episode(env) -> None:
    env.reset(seed=4)
    position = env.peg_pos.clone()
    position[0, 2] = -0.1
    manipulation.place(env, env.peg, torch.arange(NUM_ENVS), position, env.peg_quat)
    assert env._failure().tolist() == [True] + [False] * (NUM_ENVS - 1)


def test_the_wrist_camera_moves_with_the_hand_of_its_own_environment_as_the_expert_acts(env) -> None:
    env.reset(seed=5)
    expert = env.expert()
    for _ in range(15):
        env.step(expert())

    hand = env.robot.body_names.index("panda_hand")
    position = env.robot.data.body_pos_w.torch[:, hand]
    quat = env.robot.data.body_quat_w.torch[:, hand]
    offset = torch.tensor(env.cfg.scene.wrist_camera.offset.pos).expand(NUM_ENVS, 3)
    camera = env.scene["wrist_camera"].data.pos_w.torch
    assert (camera - position - quat_apply(quat, offset)).norm(dim=1).max() < 1e-3
