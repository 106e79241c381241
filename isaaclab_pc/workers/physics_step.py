# SPDX-License-Identifier: BSD-3-Clause
"""One environment step taken apart, so that something can look between its physics steps.

``env.step`` runs all physics steps of an action in one go. These functions do what Isaac Lab's ``DirectRLEnv.step`` and
``ManagerBasedRLEnv.step`` do up to the end of physics, without rewards, resets and observations. A direct environment
offers no public way to do that, so this is the only file that calls the two methods that its ``step`` calls.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["begin_step", "run_physics_step", "set_single_physics_steps"]


def set_single_physics_steps(env: Any) -> None:
    """Make every call of ``env.sim.step`` one physics step, also where the backend would run all of an action's in one.

    Args:
        env: The unwrapped environment, after a reset.
    """
    env.sim.physics_manager.set_decimation(1)


def begin_step(env: Any, action: torch.Tensor) -> None:
    """Turn an action into targets.

    Args:
        env: The unwrapped environment, direct or manager-based.
        action: Shape (num_envs, A).
    """
    if hasattr(env, "action_manager"):
        env.action_manager.process_action(action)
    else:
        env._pre_physics_step(action)


def run_physics_step(env: Any) -> None:
    """Apply the targets, run one physics step and read its state.

    Args:
        env: The unwrapped environment, direct or manager-based.
    """
    if hasattr(env, "action_manager"):
        env.action_manager.apply_action()
    else:
        env._apply_action()

    env.scene.write_data_to_sim()
    env.sim.step(render=False)
    if env.sim.is_rendering:
        env.sim.render()
    env.scene.update(dt=env.physics_dt)
