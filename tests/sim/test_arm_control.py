# SPDX-License-Identifier: BSD-3-Clause
"""The arm's actions in a real simulation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from isaaclab_pc.envs.expert import Case, Expert

pytestmark = pytest.mark.sim

NUM_ENVS = 4


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    def adjust(cfg: Any) -> None:
        cfg.obs = "state"
        cfg.episode_length_s = 60.0

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


def test_every_joint_turns_around_within_three_steps(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The Panda's wrist took 0.2 s on Newton, and the arm swung about its target.
    joints = env.arm.joints
    distance = torch.zeros(NUM_ENVS, len(joints))

    def command(action: torch.Tensor, step_dt: float) -> tuple[torch.Tensor, torch.Tensor]:
        return env.robot.data.joint_pos.torch[:, joints] + distance, distance / step_dt

    monkeypatch.setattr(env.arm, "command", command)
    action = torch.zeros(NUM_ENVS, env.cfg.action_space)
    wanted = env.cfg.joint_delta / env.step_dt
    for joint in range(len(joints)):
        env.reset(seed=6)
        for direction, steps in ((1.0, 6), (-1.0, 3)):
            distance.zero_()
            distance[:, joint] = direction * env.cfg.joint_delta
            for _ in range(steps):
                env.step(action)
            reached = direction * env.robot.data.joint_vel.torch[:, joints[joint]]
            assert (reached > 0.9 * wanted).all(), f"joint {joint + 1}: {reached}"


def test_without_an_action_the_tool_stays_where_it_is(env: Any) -> None:
    env.reset(seed=6)
    place = torch.tensor([[x, y, 0.2] for x in (0.4, 0.6) for y in (-0.2, 0.2)])
    expert = Expert(env, [Case(name="go", target=lambda e: (place, e.tool_quat))])
    for _ in range(60):
        env.step(expert())

    before = env.tool_pos
    for _ in range(60):
        env.step(torch.zeros(NUM_ENVS, env.cfg.action_space))
    assert torch.linalg.vector_norm(env.tool_pos - before, dim=1).max() < 0.002
