# SPDX-License-Identifier: BSD-3-Clause
"""From an exported policy's action to a command of examples/robot_loop.py, inside limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isaaclab_pc.errors import ConfigError

Pose = tuple[np.ndarray, np.ndarray]
"""Position [m], shape (3,), and orientation (x, y, z, w), shape (4,)."""


@dataclass(frozen=True)
class Limits:
    """Limits of the messages that the loop accepts, and of its commands."""

    max_age_s: float = 0.2
    """Oldest images, clouds, joint states and tool poses that it acts on [s]."""

    max_speed: float = 0.25
    """Speed of the tool centre [m/s]; the default is what ISO 10218 allows beside people who teach a robot."""

    max_turn: float = 1.0
    """Speed at which the tool turns [rad/s]."""

    max_joint_speed: float = 1.0
    """Speed of each joint [rad/s], for policies that command joints."""

    workspace_lower: Sequence[float] = (-np.inf,) * 3
    """Smallest x, y, z of the tool centre in the frame env [m], for policies that command the tool."""

    workspace_upper: Sequence[float] = (np.inf,) * 3
    """Largest x, y, z."""


@dataclass(frozen=True)
class Command:
    """Motion of the robot until the next command, one control step long."""

    stamp: float
    """Time at which it was computed, by the driver's clock [s]."""

    parts: dict[str, np.ndarray]
    """The parts of policy.json's output by name, in their units: motions of the tool from where it is [m], [rad],
    changes of joints or their positions [rad], and the gripper's command from -1 to 1, closed to open."""


class Commands:
    """Makes commands of clipped actions."""

    def __init__(self, description: dict[str, Any], limits: Limits) -> None:
        """Read the actions' parts in policy.json.

        Raises:
            ConfigError: It tells none, or the limits do not fit them.
        """
        self._parts = description["output"].get("parts", [])
        if not self._parts:
            raise ConfigError("policy.json tells no parts of an action: export a policy of a task of this package.")
        bounds = [*limits.workspace_lower, *limits.workspace_upper]
        if np.isfinite(bounds).any() and "tool_translation" not in {part["name"] for part in self._parts}:
            raise ConfigError("workspace_lower and workspace_upper limit policies that command the tool; leave them.")

        self.size: int = sum(part["size"] for part in self._parts)
        """Numbers of an action."""

        self._limits = limits
        self._period = 1.0 / description["output"]["rate_hz"]
        robot = description["robot"]
        joints = np.array([robot["joint_limits"][name] for name in robot["arm_joints"]])
        self._lower, self._upper = joints[:, 0], joints[:, 1]

    def make(self, action: np.ndarray, now: float, tool: Pose, arm: np.ndarray) -> Command:
        """Return the command of a clipped action (A,), for the tool's pose in the frame env and the arm's joints."""
        slices = {part["name"]: (part, action[part["from"] : part["to"]]) for part in self._parts}
        parts = {name: value * (part["scale"] or 1.0) for name, (part, value) in slices.items()}
        if "tool_translation" in parts:
            # Along the axes of the tool where it can turn, of env where it cannot.
            quat = tool[1] if "tool_rotation" in parts else np.array([0.0, 0.0, 0.0, 1.0])
            motion = self._in_workspace(tool[0], rotated(quat, parts["tool_translation"]))
            parts["tool_translation"] = rotated(
                inverted(quat), shortened(motion, self._limits.max_speed * self._period)
            )
        if "tool_rotation" in parts:
            parts["tool_rotation"] = shortened(parts["tool_rotation"], self._limits.max_turn * self._period)
        if "joint_delta" in parts:
            parts["joint_delta"] = self._joint_motion(arm, parts["joint_delta"])
        if "joint_position" in parts:
            target = self._lower + (self._upper - self._lower) * (parts["joint_position"] + 1.0) / 2.0
            parts["joint_position"] = arm + self._joint_motion(arm, target - arm)
        return Command(now, parts)

    def _in_workspace(self, pos: np.ndarray, motion: np.ndarray) -> np.ndarray:
        return np.clip(pos + motion, self._limits.workspace_lower, self._limits.workspace_upper) - pos

    def _joint_motion(self, arm: np.ndarray, delta: np.ndarray) -> np.ndarray:
        farthest = self._limits.max_joint_speed * self._period
        return np.clip(arm + delta.clip(-farthest, farthest), self._lower, self._upper) - arm


def rotated(quat: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Turn vectors (..., 3) by a quaternion (x, y, z, w)."""
    x, y, z, w = np.asarray(quat).tolist()
    # Faster than NumPy's cross product of so few numbers.
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return vectors @ np.array(rows).T


def turned(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the product of two quaternions (x, y, z, w)."""
    x, y, z, w = np.asarray(first).tolist()
    return np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]]) @ second


def shortened(vector: np.ndarray, longest: float) -> np.ndarray:
    """Shorten a vector to a length."""
    length = float(np.linalg.norm(vector))
    return vector if length <= longest else vector * (longest / length)


def inverted(quat: np.ndarray) -> np.ndarray:
    """Return the inverse of a quaternion (x, y, z, w)."""
    return quat * np.array([-1.0, -1.0, -1.0, 1.0])
