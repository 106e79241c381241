# SPDX-License-Identifier: BSD-3-Clause
"""Readings of a replay after every physics step, with the guard's bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from isaaclab_pc.faults.replay_result import Reading
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.guards.scene_state import joint_bounds

__all__ = ["StateReader", "make_readings", "scene_assets"]


def scene_assets(env: Any) -> dict[str, Any]:
    """Return the articulations and rigid objects of an unwrapped environment by name."""
    return {**env.scene.articulations, **env.scene.rigid_objects}


class StateReader:
    """Reads joints, bodies and actions of the only environment, and relates them to the guard's bounds."""

    def __init__(self, env: Any) -> None:
        """Read the joints' limits.

        Args:
            env: The unwrapped environment, of one environment.
        """
        self._env = env
        self._cfg = env.guard.cfg if hasattr(env, "guard") else GuardCfg()
        self._joints = {name: joint_bounds(self._cfg, name, asset) for name, asset in env.scene.articulations.items()}

    def read_action(self, action: torch.Tensor) -> list[Reading]:
        """Read the components of an action, shape (1, A)."""
        names = [f"component {index}" for index in range(action.shape[1])]
        low, high = self._cfg.bounds("action")
        return make_readings("", "action", names, action[0], low, high)

    def read_state(self) -> list[Reading]:
        """Read all joints, free bodies and links."""
        readings = []
        for name, asset in scene_assets(self._env).items():
            if name in self._joints:
                readings += self._read_joints(name, asset)
            readings += self._read_bodies(name, asset)
        return readings

    def _read_joints(self, name: str, asset: Any) -> list[Reading]:
        limits = self._joints[name]
        names = asset.joint_names
        position, velocity = asset.data.joint_pos.torch[0], asset.data.joint_vel.torch[0]
        return [
            *make_readings(name, "joint position [rad or m]", names, position, limits.lower, limits.upper),
            *make_readings(name, "joint velocity [rad/s or m/s]", names, velocity, -limits.fastest, limits.fastest),
        ]

    def _read_bodies(self, name: str, asset: Any) -> list[Reading]:
        data = asset.data
        follows = name in self._joints and asset.is_fixed_base
        linear, angular = self._cfg.fastest()
        position = data.body_pos_w.torch[0] - self._env.scene.env_origins[0]
        quantities = {
            "position [m]": (position, *self._cfg.bounds("position")),
            "velocity [m/s]": (data.body_lin_vel_w.torch[0], -linear, linear),
            "angular velocity [rad/s]": (data.body_ang_vel_w.torch[0], -angular, angular),
        }
        readings = []
        for label, (values, low, high) in quantities.items():
            readings += make_readings(name, label, asset.body_names, values, low, high, follows)
        return readings


def make_readings(
    asset: str,
    quantity: str,
    names: Sequence[str],
    values: torch.Tensor,
    low: torch.Tensor | float,
    high: torch.Tensor | float,
    set_by_joints: bool = False,
) -> list[Reading]:
    """Return one reading for each joint or body: that of its worst component.

    Args:
        asset: The asset's name in the scene.
        quantity: What the values are, with the unit in brackets.
        names: Joints or bodies, R of them.
        values: Shape (R, ...).
        low: Smallest value that is no fault; a number, or shape (R,).
        high: Largest value that is no fault, likewise.
        set_by_joints: As in :class:`Reading`.
    """
    values = values.reshape(len(names), -1)
    low, high = (
        torch.as_tensor(bound, dtype=values.dtype, device=values.device).view(-1, 1).expand_as(values)
        for bound in (low, high)
    )
    middle = (low + high) / 2
    excess = (values - middle).abs() / ((high - low) / 2)
    excess, worst = torch.where(excess.isfinite(), excess, torch.inf).max(dim=1, keepdim=True)

    bounds = torch.where(values < middle, low, high).gather(1, worst)
    rows = torch.cat([values.gather(1, worst), bounds, excess], dim=1).tolist()
    return [
        Reading(asset, name, quantity, value, bound, row_excess, set_by_joints)
        for name, (value, bound, row_excess) in zip(names, rows, strict=True)
    ]
