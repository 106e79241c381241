# SPDX-License-Identifier: BSD-3-Clause
"""The guard on a task of another package: a NaN costs one environment one episode, and its neighbours nothing.

    python examples/guard_your_task.py                     # Isaac Lab's cart-pole, from its asset server
    python examples/guard_your_task.py --assets <folder>   # the same from cartpole.usda and ground.usda in a folder

The task stays the object that it is, so any learning library's wrapper takes it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import isaaclab_tasks  # noqa: F401 (registers Isaac Lab's tasks)  # pyright: ignore[reportUnusedImport]
import torch
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import resolve_task_config

from isaaclab_pc.guards import GuardCfg, attach_guard

TASK = "Isaac-Cartpole-Direct"
SICK = 2
"""The environment that is given a NaN."""


def main() -> None:
    """Run a few steps, break one environment, and print what the guard counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", type=Path, help="folder with cartpole.usda and ground.usda")
    args = parser.parse_args()
    if args.assets is not None:
        for name in ("cartpole.usda", "ground.usda"):
            if not (args.assets / name).is_file():
                parser.error(f"--assets {args.assets}: there is no {name}")

    cfg: Any = resolve_task_config(TASK, "rsl_rl_cfg_entry_point", overrides=["physics=newton_mjwarp"])[0]
    cfg.sim.device = "cpu"
    cfg.scene.num_envs = 8
    if args.assets is not None:
        cfg.scene.ground.spawn.usd_path = str(args.assets / "ground.usda")
        cfg.scene.cartpole.spawn.usd_path = str(args.assets / "cartpole.usda")

    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        env: Any = gym.make(TASK, cfg=cfg)
        try:
            guard = attach_guard(env, GuardCfg(), TASK)
            env.reset(seed=1)
            for step in range(10):
                actions = torch.zeros(8, 1)
                if step == 5:
                    actions[SICK] = float("nan")
                observations, reward, terminated, _, _ = env.step(actions)
                assert observations["policy"].isfinite().all()
                assert reward.isfinite().all()
                if terminated.any():
                    print(f"step {step}: episodes of environments {terminated.nonzero().flatten().tolist()} ended")

            print({cause: int(count) for cause, count in guard.counts.items() if count})
        finally:
            env.close()


if __name__ == "__main__":
    main()
