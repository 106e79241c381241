# SPDX-License-Identifier: BSD-3-Clause
"""Actions of a person who drives the arm of one environment by sliders and keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

_KEY_S = 0.25
"""Time that a key moves the arm [s]: until a keyboard repeats a key that is held."""

_AXES = ("x", "y", "z")
_DIRECTIONS = ("away from the base", "to the base's left", "up")
_HAND_DIRECTIONS = ("along the hand's x axis", "across it, as the fingers move", "where the hand points")
_MOVE_KEYS = (("K", "I"), ("L", "J"), ("O", "U"))
_TURN_KEYS = (("H", "F"), ("G", "T"), ("Y", "R"))
"""Not W, A, S, D, Q, E and the arrows, which move viser's camera."""

_GRIPPER_KEYS = ("C", "V")


@dataclass(frozen=True)
class Motion:
    """One component of the action, from -1 to 1."""

    name: str
    """Name of the moved part."""
    meaning: str
    """Meaning of the values, for people."""
    keys: tuple[str, str] | None = None
    """Keys for smaller and for larger values."""
    start: float = 0.0
    """Value at rest."""
    stays: bool = False
    """Whether the value is a position rather than a speed: a key sets it for good, and Stop leaves it."""


class ArmDrive:
    """The actions that sliders and keys ask for.

    A page's handlers call the methods from threads of their own; the loop that steps the environment asks for actions.
    """

    def __init__(self, motions: Sequence[Motion], key_steps: int) -> None:
        """Rest; ``motions`` are the components of the action, in their order.

        A key moves the arm for ``key_steps``: browsers repeat a key that is held, and never tell of its release.
        """
        self.motions = tuple(motions)
        self.env = 0
        """The environment that is driven."""
        self.values = [motion.start for motion in motions]
        """Values of the sliders."""
        self._key_steps = key_steps
        self._pressed: dict[int, tuple[float, int]] = {}

    def press(self, index: int, direction: float) -> None:
        """Move by the key of a motion; the direction is -1 or 1."""
        if self.motions[index].stays:
            self.values[index] = direction
        else:
            self._pressed[index] = (direction, self._key_steps)

    def stop(self) -> None:
        """Stop all motions; positions stay."""
        self._pressed = {}
        for index, motion in enumerate(self.motions):
            if not motion.stays:
                self.values[index] = motion.start

    def next_action(self) -> list[float]:
        """Return the action of the next step, each component in [-1, 1]; a key counts before its slider."""
        action = list(self.values)
        for index, (direction, steps) in list(self._pressed.items()):
            action[index] = direction
            if steps > 1:
                self._pressed[index] = (direction, steps - 1)
            else:
                self._pressed.pop(index, None)
        return action

    def next_actions(self, num_envs: int, device: str) -> torch.Tensor:
        """Return the next actions of all environments, shape (N, A): all but the driven one rest."""
        rest = torch.tensor([motion.start for motion in self.motions], device=device)
        actions = rest.repeat(num_envs, 1)
        actions[self.env] = torch.tensor(self.next_action(), device=device)
        return actions


def arm_drive(env: Any) -> ArmDrive:
    """Return the drive of an unwrapped :class:`~isaaclab_pc.envs.PointCloudEnv`."""
    lower, upper = env.arm.limits[0].T
    default = env.robot.data.default_joint_pos.torch[0, env.arm.joints]
    # As a joint's position, 0 is the middle of its range: the arm would go there at the start.
    pose = 2.0 * (default - lower) / (upper - lower) - 1.0
    return ArmDrive(motions_of(env.cfg, pose.tolist()), max(round(_KEY_S / env.step_dt), 1))


def motions_of(cfg: Any, pose: Sequence[float]) -> list[Motion]:
    """Return the components of an action by the configuration of a :class:`~isaaclab_pc.envs.PointCloudEnv`.

    ``pose`` is the arm's default pose as an action ``joint_position``, one number for each joint.
    """
    joints = cfg.scene.robot.arm_joints
    if cfg.action == "joint_position":
        meaning = "-1 and 1 are the ends of the joint's range"
        motions = [Motion(name, meaning, start=at, stays=True) for name, at in zip(joints, pose, strict=True)]
    elif cfg.action == "joint_delta":
        motions = [Motion(name, f"1 is {cfg.joint_delta:g} rad a step") for name in joints]
    else:
        directions = _HAND_DIRECTIONS if cfg.action == "tool_pose" else _DIRECTIONS
        moves = zip(_AXES, directions, _MOVE_KEYS, strict=True)
        motions = [
            Motion(axis, f"{direction}; 1 is {cfg.tool_delta:g} m a step", keys) for axis, direction, keys in moves
        ]
    if cfg.action == "tool_pose":
        meaning = f"1 is {cfg.tool_rotation:g} rad a step"
        motions += [Motion(f"about {axis}", meaning, keys) for axis, keys in zip(_AXES, _TURN_KEYS, strict=True)]
    if cfg.gripper:
        motions.append(Motion("gripper", "-1 is closed, 1 is open", _GRIPPER_KEYS, start=1.0, stays=True))
    return motions
