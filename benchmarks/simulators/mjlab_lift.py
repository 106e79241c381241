# SPDX-License-Identifier: BSD-3-Clause
# /// script
# requires-python = ">=3.12,<3.13"
# dependencies = ["mjlab==1.6.0", "psutil>=6"]
# ///
"""mjlab's task of lifting a cube with a YAM arm, on the CPU: MuJoCo Warp, all environments in one process."""

from importlib.metadata import version

import mjlab.tasks  # noqa: F401  # pyright: ignore[reportMissingImports]
import torch
from mjlab.envs import ManagerBasedRlEnv  # pyright: ignore[reportMissingImports]
from mjlab.tasks.registry import load_env_cfg  # pyright: ignore[reportMissingImports]
from rate import arguments, measure

TASKS = {"state": "Mjlab-Lift-Cube-Yam", "depth": "Mjlab-Lift-Cube-Yam-Depth"}

if __name__ == "__main__":
    args = arguments(__doc__)
    cfg = load_env_cfg(TASKS[args.obs])
    cfg.scene.num_envs = args.num_envs
    env = ManagerBasedRlEnv(cfg, device="cpu")
    env.reset()
    shape = (args.num_envs, env.action_manager.total_action_dim)
    measure(lambda: env.step(2.0 * torch.rand(shape) - 1.0), args, 1.0 / env.step_dt, version=version("mjlab"))
    env.close()
