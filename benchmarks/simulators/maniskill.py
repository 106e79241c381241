# SPDX-License-Identifier: BSD-3-Clause
# /// script
# requires-python = ">=3.12,<3.13"
# dependencies = ["mani_skill==3.0.1", "torch==2.11.0", "psutil>=6"]
# ///
"""ManiSkill's PickCube on the CPU: a process an environment, as its documentation advises for that backend.

It needs a Vulkan device, also where nothing is rendered. Without a GPU that is Mesa's lavapipe from version 24.3 on
(``mesa-vulkan-drivers``, for Debian 12 from its backports).
"""

from functools import partial
from importlib.metadata import version

import gymnasium as gym
import mani_skill.envs  # noqa: F401  # pyright: ignore[reportMissingImports]
import torch
from mani_skill.utils.wrappers.gymnasium import CPUGymWrapper  # pyright: ignore[reportMissingImports]
from rate import arguments, measure

SIZES = {"depth": (80, 60), "points": (640, 480)}
"""Columns and rows of the camera, as in this project's tasks."""


def make(obs: str) -> gym.Env:
    """Make one environment."""
    torch.set_num_threads(1)
    kwargs = {}
    if obs != "state":
        width, height = SIZES[obs]
        kwargs["sensor_configs"] = {"width": width, "height": height}
    mode = {"points": "pointcloud"}.get(obs, obs)
    env = gym.make(
        "PickCube-v1",
        obs_mode=mode,
        control_mode="pd_ee_delta_pose",
        sim_backend="physx_cpu",
        render_backend="sapien_cpu",
        **kwargs,
    )
    return CPUGymWrapper(env)


if __name__ == "__main__":
    args = arguments(__doc__)
    # Vulkan does not survive a fork.
    envs = gym.vector.AsyncVectorEnv([partial(make, args.obs)] * args.num_envs, context="forkserver")
    envs.reset(seed=0)
    measure(lambda: envs.step(envs.action_space.sample()), args, control_hz=20, version=version("mani_skill"))
    envs.close()
