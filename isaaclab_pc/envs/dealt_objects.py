# SPDX-License-Identifier: BSD-3-Clause
"""The object that each environment got of a set: how it rests on a table, and where it is grasped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import trimesh
from isaaclab.utils.math import quat_apply, quat_apply_inverse, quat_conjugate, quat_mul
from torch.nn.utils.rnn import pad_sequence

from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.assets.objects.sets import load_set
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_DIRECTIONS = trimesh.creation.icosphere(subdivisions=1).vertices
"""Ways in which an object's farthest points are looked for, 42."""

_NO_GRASP = 1e6
"""Cost of a grasp that fills up a row, or cannot be reached as the object lies."""

_TILTED = 0.6
"""Angle of a grasp to straight down beyond which it cannot be reached [rad]."""

_UPRIGHT = 0.1
"""Angle up to which it costs nothing [rad]."""

_LOWEST_GRASP = 0.006
"""Height of the tool centre below which the fingers would meet the table [m]."""

_AS_GOOD = 0.1
"""Cost beyond that of the best grasp at which one is as good."""

_CLOSE = 0.06
"""Distance up to which the tool prefers a grasp that it is closer to [m]."""


@dataclass(frozen=True, kw_only=True)
class DealtObjects:
    """The objects of all environments in tensors, in frames with each object's centre of mass as the origin.

    Rows of objects with fewer resting poses or grasps are filled up with poses of no chance and grasps of a high cost.
    """

    rest_cumulative: torch.Tensor
    """Chance of a resting pose or one before it, (N, R)."""
    rest_quat: torch.Tensor
    """Orientations (x, y, z, w) in which it rests, (N, R, 4)."""
    rest_height: torch.Tensor
    """Height of the origin above the table there [m], (N, R)."""
    grasp_position: torch.Tensor
    """Tool centre of each grasp [m], (N, G, 3)."""
    grasp_quat: torch.Tensor
    """Orientation of the tool (x, y, z, w), (N, G, 4)."""
    grasp_width: torch.Tensor
    """Distance of the fingers that hold it [m], (N, G)."""
    grasp_cost: torch.Tensor
    """0 is the best that can be thought of, (N, G)."""
    corners: torch.Tensor
    """Farthest points in 42 directions [m], (N, 42, 3)."""

    @classmethod
    def of_scene(cls, objects: str, device: str | torch.device) -> DealtObjects:
        """Load what :func:`~isaaclab_pc.assets.objects.object_set.object_set_cfg` dealt out in a scene that is built.

        Raises:
            ConfigError: There is no such set.
        """
        loaded = load_set(objects)
        index = dealt_objects()

        def rows(name: str, fill: float = 0.0) -> torch.Tensor:
            values = [torch.tensor(getattr(graspable, name), dtype=torch.float32) for graspable in loaded]
            return pad_sequence(values, batch_first=True, padding_value=fill)[index].to(device)

        vertices = [graspable.vertices for graspable in loaded]
        corners = np.stack([points[(points @ _DIRECTIONS.T).argmax(axis=0)] for points in vertices])
        return cls(
            rest_cumulative=rows("rest_chance").cumsum(dim=1),
            rest_quat=rows("rest_quat"),
            rest_height=rows("rest_height"),
            grasp_position=rows("grasp_position"),
            grasp_quat=rows("grasp_quat"),
            grasp_width=rows("grasp_width"),
            grasp_cost=rows("grasp_cost", fill=_NO_GRASP),
            corners=torch.from_numpy(corners[index].astype(np.float32)).to(device),
        )

    @cached_property
    def grasp_down(self) -> torch.Tensor:
        """The way down of the tool in each grasp, (N, G, 3)."""
        down = constant_tensor((0.0, 0.0, 1.0), self.grasp_quat.device)
        return quat_apply(self.grasp_quat, down.expand_as(self.grasp_position))

    def resting(self, env_ids: torch.Tensor, unit: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a resting pose of each object in ``env_ids`` (M,), by its chance: quaternions (M, 4), heights (M,).

        ``unit`` (M,) are draws in [0, 1).
        """
        chosen = (unit[:, None] >= self.rest_cumulative[env_ids, :-1]).sum(dim=1)
        return self.rest_quat[env_ids, chosen], self.rest_height[env_ids, chosen]


def preferred_grasp(
    dealt: DealtObjects,
    position: torch.Tensor,
    quat: torch.Tensor,
    tool_pos: torch.Tensor,
    tool_quat: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose a grasp of each object as it lies: one that a student can tell from others that are as good.

    The preference is fixed: a yaw near the arm's default, a place on the right and near the base. Where quality decided
    among good grasps, or their distance from the tool, a student would go to the middle between two and halt there
    (measured with rings). What is close to the tool counts a little, so that the choice stays while the tool comes.

    Args:
        dealt: The objects.
        position: Their centres of mass in the environment frame [m], (N, 3).
        quat: Their orientations (x, y, z, w), (N, 4).
        tool_pos: Tool centres in the environment frame [m], (N, 3).
        tool_quat: Orientations of the tools (x, y, z, w), (N, 4).

    Returns:
        Tool centres in the environment frame (N, 3), orientations (N, 4), widths (N,).
    """
    # In each object's frame, where its grasps stay.
    up = _in_frame(quat, (0.0, 0.0, 1.0))
    far_left = _in_frame(quat, (0.5, 1.0, 0.0))
    tool = quat_apply_inverse(quat, tool_pos - position)
    to_object = quat_conjugate(quat)
    # A gripper that is turned by half a turn holds the same: it is the tool that is turned, of which there are fewer.
    half_turn = constant_tensor((0.0, 0.0, 1.0, 0.0), quat.device).expand_as(quat)
    default_quat = constant_tensor((1.0, 0.0, 0.0, 0.0), quat.device).expand_as(quat)

    same, turned = (_dot(dealt.grasp_quat, way).abs() for way in _both_ways(quat_mul(to_object, tool_quat), half_turn))
    from_tool = _angle(torch.maximum(same, turned))
    default = [_dot(dealt.grasp_quat, way).abs() for way in _both_ways(quat_mul(to_object, default_quat), half_turn)]
    from_default = _angle(torch.maximum(*default))
    tilt = torch.acos(-_dot(dealt.grasp_down, up).clamp(-1.0, 1.0))
    height = _dot(dealt.grasp_position, up) + position[:, 2:]
    distance = torch.linalg.vector_norm(dealt.grasp_position - tool[:, None], dim=2)

    reachable = (tilt < _TILTED) & (height > _LOWEST_GRASP)
    quality = torch.where(reachable, dealt.grasp_cost, _NO_GRASP)
    worse = (quality - quality.amin(dim=1, keepdim=True) - _AS_GOOD).clamp(min=0.0)
    cost = 2.0 * worse + 3.0 * (tilt - _UPRIGHT).clamp(min=0.0)
    cost = cost + from_default + 5.0 * _dot(dealt.grasp_position, far_left)
    cost = cost + 0.25 * from_tool + 8.0 * distance.clamp(max=_CLOSE)

    best = cost.argmin(dim=1, keepdim=True)
    at = dealt.grasp_position.take_along_dim(best[..., None], dim=1)[:, 0]
    held = dealt.grasp_quat.take_along_dim(best[..., None], dim=1)[:, 0]
    is_turned = (turned > same).take_along_dim(best, dim=1)
    held = torch.where(is_turned, quat_mul(held, half_turn), held)
    width = dealt.grasp_width.take_along_dim(best, dim=1)[:, 0]
    return position + quat_apply(quat, at), quat_mul(quat, held), width


def _both_ways(quat: torch.Tensor, half_turn: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return quat, quat_mul(quat, half_turn)


def _in_frame(quat: torch.Tensor, direction: tuple[float, float, float]) -> torch.Tensor:
    return quat_apply_inverse(quat, constant_tensor(direction, quat.device).expand(len(quat), 3))


def _dot(rows: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.bmm(rows, vector[..., None])[..., 0]


def _angle(cosine_of_half: torch.Tensor) -> torch.Tensor:
    return 2.0 * torch.acos(cosine_of_half.clamp(max=1.0))
