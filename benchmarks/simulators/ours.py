# SPDX-License-Identifier: BSD-3-Clause
"""This project's ``lift`` on the CPU: PhysX through ovphysx, all environments in one process."""

from typing import Any

import torch
from rate import arguments, measure

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

if __name__ == "__main__":
    args = arguments(__doc__)
    given = ["task=lift", f"obs={args.obs}", f"num_envs={args.num_envs}", "physics=ovphysx", "device=cpu"]
    resolved = resolve(choose_platform(compose(given)), args.num_envs)
    with open_env(resolved) as env, torch.inference_mode():
        env.reset(seed=0)
        plain: Any = env.unwrapped
        actions = RandomActions(args.num_envs, plain.single_action_space.shape[0], "cpu", seed=0)
        measure(lambda: env.step(actions()), args, control_hz=1.0 / plain.step_dt)
