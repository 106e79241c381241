# SPDX-License-Identifier: BSD-3-Clause
"""Another arm by the setting ``robot`` alone, as scripts/train.py builds it."""

import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

pytestmark = pytest.mark.sim

NUM_ENVS = 4


def test_another_arm_resets_steps_and_sees_with_its_own_hand(backend: str) -> None:
    settings = compose(["task=push", "robot=ur5e", f"physics={backend}", "device=cpu"], ["env.action=joint_delta"])
    with open_env(resolve(settings, NUM_ENVS)) as gym_env:
        env = gym_env.unwrapped
        assert env.single_action_space.shape == (6 + env.cfg.gripper,)
        observation, _ = gym_env.reset(seed=1)
        generator = torch.Generator().manual_seed(0)
        for _ in range(5):
            action = 2.0 * torch.rand(NUM_ENVS, *env.single_action_space.shape, generator=generator) - 1.0
            observation, reward, *_ = gym_env.step(action)
            for group, space in env.single_observation_space.spaces.items():
                assert observation[group].shape == (NUM_ENVS, *space.shape)
                assert torch.isfinite(observation[group]).all()
            assert torch.isfinite(reward).all()
        # The cloud is in the frame of the tool: where the cube is, points lie on its surface.
        position = env.cube.data.root_pos_w.torch - env.scene.env_origins
        in_tool = quat_apply_inverse(env.tool_quat, position - env.tool_pos)
        nearest = torch.cdist(in_tool[:, None], observation["points"][..., :3].float()).amin(dim=(1, 2))
        assert ((nearest > 0.018) & (nearest < 0.037)).all()
