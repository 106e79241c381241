# SPDX-License-Identifier: BSD-3-Clause
"""The guard finds the same with 256 threads in a block: its kernels' PTX, run in an interpreter."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp

from isaaclab_pc.guards import Cause, Guard, GuardCfg, SceneState, StepGuard
from tests.ptx.launches import interpreted

NUM_ENVS = 70
"""So that the last block is not full."""

BAD = (math.nan, math.inf, -math.inf, 2000.0, -0.5)


def numbers(*shape: int, seed: int, bad: int = 9) -> torch.Tensor:
    """Return numbers in [0, 1) with some of ``BAD`` anywhere."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(shape, generator=generator)
    places = torch.randperm(values.numel(), generator=generator)[: 5 * bad]
    values.view(-1)[places] = torch.tensor(BAD).repeat(bad)
    return values


def state_of(guard: Guard, step: int) -> SceneState:
    """Return the state of a scene with an arm and a cube, with faults."""
    joints = SimpleNamespace(
        joint_pos_limits=SimpleNamespace(torch=torch.tensor([-0.1, 1.0]).expand(NUM_ENVS, 9, 2)),
        joint_vel_limits=SimpleNamespace(torch=torch.full((NUM_ENVS, 9), 1.0)),
        joint_pos=SimpleNamespace(warp=wp.from_torch(numbers(NUM_ENVS, 9, seed=step + 50, bad=2))),
        joint_vel=SimpleNamespace(warp=wp.from_torch(numbers(NUM_ENVS, 9, seed=step + 60, bad=2))),
    )
    pose = numbers(NUM_ENVS, 7, seed=step + 70, bad=2)
    pose[::3, 3:] = torch.tensor([0.0, 0.6, 0.0, 0.8])
    cube = SimpleNamespace(
        root_link_pose_w=SimpleNamespace(warp=wp.from_torch(pose, dtype=wp.transformf)),
        root_com_vel_w=SimpleNamespace(
            warp=wp.from_torch(numbers(NUM_ENVS, 6, seed=step + 80, bad=1), dtype=wp.spatial_vectorf)
        ),
    )
    arm = SimpleNamespace(num_instances=NUM_ENVS, num_joints=9, is_fixed_base=True, data=joints)
    scene = SimpleNamespace(
        articulations={"arm": arm},
        rigid_objects={"cube": SimpleNamespace(num_instances=NUM_ENVS, data=cube)},
        env_origins=torch.zeros(NUM_ENVS, 3),
    )
    return SceneState(guard, scene)


def play(mode: Any, *, as_on_a_gpu: bool) -> list[torch.Tensor]:
    """Return all that the guard says and writes in some steps."""
    guard = Guard(GuardCfg(mode=mode, bench_after=1), NUM_ENVS, "cpu")
    if as_on_a_gpu:
        guard._on_cpu = False
        guard._total_view = None
    seen = []
    for step in range(4):
        guard.begin_step()
        seen.append(guard.check_actions(numbers(NUM_ENVS, 7, seed=step)))
        depth, points = numbers(NUM_ENVS, 12, 25, seed=step + 10), numbers(NUM_ENVS, 11, 3, seed=step + 20).half()
        reward = numbers(NUM_ENVS, seed=step + 30, bad=1)
        for cause, tensor in ((Cause.DEPTH, depth), (Cause.OBSERVATION, points), (Cause.REWARD, reward)):
            seen += [guard.check(cause, tensor).clone(), tensor]
        if mode != "sanitize":
            state_of(guard, step).check()
        terminated, truncated, done = (numbers(NUM_ENVS, seed=step + 90 + i, bad=1) > 0.5 for i in range(3))
        env = SimpleNamespace(reset_terminated=terminated, reset_time_outs=truncated, reset_buf=done)
        step_guard = StepGuard(env, guard, state_of(guard, step))
        dones = step_guard.check_dones(terminated, truncated)
        reward = numbers(NUM_ENVS, seed=step + 95, bad=1)
        uncounted = step_guard.check_reward(reward)
        found = step_guard.check_observations({"points": points})
        assert dones is not None
        assert uncounted is not None
        assert (found is None) == (mode == "sanitize")
        seen += [*dones, uncounted, reward]
        if found is not None:
            step_guard.end_by_observation(found[1], reward, terminated, truncated)
            seen += [*found, terminated, truncated, done]
        guard.awaiting_reset |= guard.faulted
        guard.end_step()
        seen += [guard.causes.clone(), torch.tensor(guard.pending_counts())]
        guard.on_reset(guard.awaiting_reset.nonzero().squeeze(-1))
    return [*seen, guard.benched, guard.env_counts, guard._counts, guard._total, guard._relapses, guard._since_fault]


@pytest.mark.parametrize("mode", ["quarantine", "sanitize"])
def test_faults_of_any_thread_are_found_counted_and_repaired(mode: str) -> None:
    expected = play(mode, as_on_a_gpu=False)
    with interpreted() as interpreter:
        found = play(mode, as_on_a_gpu=True)
    assert {"check_values", "check_dones", "check_reward"} <= set(interpreter.launched)
    assert mode == "sanitize" or {"hide_observations", "end_episodes"} <= set(interpreter.launched)
    assert mode == "sanitize" or {"check_joints", "check_bodies", "update_bench"} <= set(interpreter.launched)
    assert bool(expected[-6].any()) == (mode != "sanitize"), "where values are repaired, nobody is benched"
    assert 0 < expected[-4].count_nonzero() < len(expected[-4])
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
