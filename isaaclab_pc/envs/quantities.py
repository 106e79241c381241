# SPDX-License-Identifier: BSD-3-Clause
"""Meaning of the numbers that a policy reads and writes, for programs without a simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.json_record import JsonRecord, Size

if TYPE_CHECKING:
    from isaaclab_pc.envs.point_cloud_env import PointCloudEnv
    from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg


@dataclass(frozen=True)
class Quantity(JsonRecord):
    """Numbers of an observation vector that stand side by side."""

    name: str
    """Name."""

    size: Size
    """How many numbers it has."""

    unit: str
    """Their unit; empty where they have none."""

    meaning: str
    """Meaning, with frame, order and factor."""


@dataclass(frozen=True)
class ActionPart(JsonRecord):
    """Numbers of an action that stand side by side."""

    name: str
    """Name."""

    size: Size
    """How many numbers it has."""

    scale: float | None
    """Effect of an action of 1, in ``unit``; None where the action is no multiple of a quantity."""

    unit: str
    """The unit of ``scale``; empty where there is none."""

    meaning: str
    """Effect, with frame and limits."""


GOAL_QUANTITIES = (
    Quantity("goal_pos", 3, "m", "the task's goal, in the frame env"),
    Quantity("goal_from_tool", 3, "m", "goal_pos minus tool_pos"),
)
"""Numbers that tell a policy of a goal that it cannot see."""


def vector_quantities(env: PointCloudEnv) -> list[Quantity]:
    """Return the quantities in a frame of the observation group ``policy``, in its order.

    Raises:
        ConfigError: The task describes more numbers than it returns.
    """
    arm = len(env.arm.joints)
    quantities = [Quantity("arm_joint_pos", arm, "rad", "position of each arm joint, minus its default")]
    speeds = [Quantity("arm_joint_vel", arm, "rad/s", "0.1 times the velocity of each arm joint")]
    if env.cfg.gripper:
        fingers = len(env.arm.fingers)
        unit = "m" if env.cfg.scene.robot.finger_travel is None else "rad"
        quantities.append(Quantity("finger_joint_pos", fingers, unit, "position of each finger, minus its default"))
        speeds.append(Quantity("finger_joint_vel", fingers, f"{unit}/s", "0.1 times the velocity of each finger"))
    quantities += [
        *speeds,
        Quantity("tool_pos", 3, "m", "tool centre, in the frame env"),
        Quantity("tool_quat", 4, "", "orientation of the hand in the frame env, (x, y, z, w)"),
        Quantity("last_action", env.actions.shape[1], "", "the last action, clipped to [-1, 1]; 0 at the start"),
        *env.task_quantities(),
    ]

    spaces: Any = env.single_observation_space
    left = spaces["policy"].shape[0] // env.cfg.history_length - sum(quantity.size for quantity in quantities)
    if left < 0:
        described = sum(quantity.size for quantity in env.task_quantities())
        raise ConfigError(
            f"{type(env).__name__}: task_quantities describes {described} numbers, {-left} more than "
            "_task_proprioception returns."
        )
    if left > 0:
        source = "_task_state: known to a simulator only" if env.cfg.obs == "state" else "_task_proprioception"
        quantities.append(Quantity("task", left, "", f"what the task returns in {source}"))
    return quantities


def action_parts(env: PointCloudEnv) -> list[ActionPart]:
    """Return the parts of an action, in its order; see :class:`~isaaclab_pc.envs.arm_control.ArmControl`."""
    cfg = env.cfg
    joints = len(env.arm.joints)
    limit = f"no joint's target is more than {cfg.joint_delta:g} rad from where the joint is"
    turn = ActionPart(
        *("tool_rotation", 3, cfg.tool_rotation, "rad"),
        "how the tool turns from how it is: a rotation vector along the axes of the frame gripper",
    )
    kinds = {
        "tool_delta": [_translation(cfg, "env", limit)],
        "tool_pose": [_translation(cfg, "gripper", limit), turn],
        "joint_delta": [ActionPart("joint_delta", joints, cfg.joint_delta, "rad", "change of each joint's position")],
        "joint_position": [
            ActionPart(
                *("joint_position", joints, None, ""),
                f"where each joint goes: -1 is its lower limit and 1 its upper one; {limit}",
            )
        ],
    }
    parts = kinds[cfg.action]
    if cfg.gripper:
        meaning = "opens fully above 0, closes fully otherwise"
        if cfg.gripper_action == "continuous":
            meaning = "from closed at -1 to open at 1"
        parts = [*parts, ActionPart("gripper", 1, None, "", meaning)]
    return parts


def _translation(cfg: PointCloudEnvCfg, frame: str, limit: str) -> ActionPart:
    meaning = f"where the tool centre goes, from where it is, along the axes of the frame {frame}; {limit}"
    return ActionPart("tool_translation", 3, cfg.tool_delta, "m", meaning)
