# SPDX-License-Identifier: BSD-3-Clause
"""The quantities that a replay checks after every physics step, and their bounds, which are the guard's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.guards.scene_state import joint_bounds
from isaaclab_pc.launch.replay_result import Reading

__all__ = ["Quantity", "action_quantity", "read_quantities", "scene_assets", "scene_quantities"]


@dataclass(frozen=True)
class Quantity:
    """One quantity of all joints or bodies of an asset, and what it may be."""

    asset: str
    """The asset's name in the scene; empty for the action."""

    label: str
    """Name of the quantity, with its unit in brackets."""

    names: Sequence[str]
    """Joint or body of each row."""

    values: Callable[[], torch.Tensor]
    """Returns the current values, shape (len(names), components)."""

    low: torch.Tensor | float
    """Smallest value that is no fault; a number, or shape (len(names), 1)."""

    high: torch.Tensor | float
    """Largest value that is no fault, likewise."""

    set_by_joints: bool = False
    """As for :attr:`~isaaclab_pc.launch.replay_result.Reading.set_by_joints`."""


def scene_assets(env: Any) -> dict[str, Any]:
    """Return an environment's articulations and rigid objects by name.

    Args:
        env: The unwrapped environment.
    """
    return {**env.scene.articulations, **env.scene.rigid_objects}


def scene_quantities(env: Any) -> list[Quantity]:
    """Return what is checked in an environment's state: joints, free bodies, and links.

    Args:
        env: The unwrapped environment, of one environment.
    """
    cfg = _guard_cfg(env)
    found = []
    for name, asset in scene_assets(env).items():
        is_articulation = name in env.scene.articulations
        if is_articulation:
            found += _joint_quantities(cfg, name, asset)
        found += _body_quantities(
            cfg, name, asset, env.scene.env_origins[0], set_by_joints=is_articulation and asset.is_fixed_base
        )
    return found


def action_quantity(env: Any, action: torch.Tensor) -> Quantity:
    """Return what is checked in an action.

    Args:
        env: The unwrapped environment.
        action: Shape (1, A).
    """
    low, high = _guard_cfg(env).bounds("action")
    names = [f"component {index}" for index in range(action.shape[1])]
    return Quantity("", "action", names, lambda: action.view(-1, 1), low, high)


def read_quantities(quantities: Sequence[Quantity]) -> list[Reading]:
    """Read quantities.

    Args:
        quantities: What to read.

    Returns:
        One reading for every joint or body of each quantity, in their order: that of its worst component.
    """
    found = []
    for quantity in quantities:
        values = quantity.values()
        low = torch.as_tensor(quantity.low, device=values.device).expand_as(values)
        high = torch.as_tensor(quantity.high, device=values.device).expand_as(values)
        middle = (low + high) / 2

        excess = (values - middle).abs() / ((high - low) / 2)
        excess, worst = torch.where(excess.isfinite(), excess, torch.inf).max(dim=1, keepdim=True)

        bounds = torch.where(values < middle, low, high).gather(1, worst)
        rows = torch.cat([values.gather(1, worst), bounds, excess], dim=1).tolist()
        for name, (value, bound, row_excess) in zip(quantity.names, rows, strict=True):
            found.append(
                Reading(
                    asset=quantity.asset,
                    name=name,
                    quantity=quantity.label,
                    value=value,
                    bound=bound,
                    excess=row_excess,
                    set_by_joints=quantity.set_by_joints,
                )
            )
    return found


def _guard_cfg(env: Any) -> GuardCfg:
    guard = getattr(env, "guard", None)
    return guard.cfg if guard is not None else GuardCfg()


def _joint_quantities(cfg: GuardCfg, name: str, asset: Any) -> list[Quantity]:
    limits = joint_bounds(cfg, name, asset)
    lower = limits.lower[:, None]
    upper = limits.upper[:, None]
    fastest = limits.fastest[:, None]

    position = _reader(asset.data, "joint_pos")
    velocity = _reader(asset.data, "joint_vel")
    joints = list(asset.joint_names)
    return [
        Quantity(name, "joint position [rad or m]", joints, position, lower, upper),
        Quantity(name, "joint velocity [rad/s or m/s]", joints, velocity, -fastest, fastest),
    ]


def _body_quantities(cfg: GuardCfg, name: str, asset: Any, origin: torch.Tensor, set_by_joints: bool) -> list[Quantity]:
    linear = min(cfg.linear_velocity, cfg.max_abs)
    angular = min(cfg.angular_velocity, cfg.max_abs)

    position = _reader(asset.data, "body_pos_w", origin)
    velocity = _reader(asset.data, "body_lin_vel_w")
    angular_velocity = _reader(asset.data, "body_ang_vel_w")
    bodies = list(asset.body_names)
    return [
        Quantity(name, "position [m]", bodies, position, *cfg.bounds("position"), set_by_joints),
        Quantity(name, "velocity [m/s]", bodies, velocity, -linear, linear, set_by_joints),
        Quantity(name, "angular velocity [rad/s]", bodies, angular_velocity, -angular, angular, set_by_joints),
    ]


def _reader(data: Any, field: str, origin: torch.Tensor | float = 0.0) -> Callable[[], torch.Tensor]:
    """Return a function that reads a field of an asset's data, relative to ``origin``, one row a joint or body."""

    def values() -> torch.Tensor:
        value = getattr(data, field).torch[0] - origin
        return value.view(len(value), -1)

    return values
