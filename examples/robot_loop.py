# SPDX-License-Identifier: BSD-3-Clause
"""The loop around an exported policy on a robot: messages in, commands out, and a stop where something is wrong.

Write a :class:`Driver` around your robot's and your camera's clients, and run::

    loop = PolicyLoop(ExportedPolicy(Path("logs/pretrained/lift/export")), Limits(workspace_lower=(0.3, -0.3, 0.02)))
    drive(loop, MyDriver())
    loop.save_log(Path("log.hdf5"))

What the driver gives, by topic, with the types of examples/robot_messages.py:

    joint_states        JointState of all joints of policy.json's robot, in any order
    tool_pose           PoseStamped of the tool centre with the orientation of the hand: forward kinematics of the
                        robot's own controller, for tool_pos, tool_quat, goal_from_tool and the frame gripper
    goal                PoseStamped of the goal, for goal_pos and goal_from_tool of lift, stack and turn_valve
    <part>              Numbers for a part of the input ``policy`` that is none of these: turning_direction
    <camera>            Image with the depth, rectified, or PointCloud2 of what a self-filter leaves
    <camera>/info       CameraInfo of the images
    <camera>/removed    Image with the self-filter's mask; optional
    <camera>/pose       PoseStamped of the optical frame: once where the camera stands, often where it moves

Poses are in the frame ``env`` of policy.json or in the robot's base, by their ``frame_id``. All stamps are of one
clock. The loop fills in ``last_action`` itself. A controller must hold the robot on its own when commands stop to come:
no program can watch over its own end.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from exported_policy import ExportedPolicy
from robot_commands import Command, Commands, Limits
from robot_inputs import RobotInputs, StopError
from robot_messages import Message

from isaaclab_pc.errors import ConfigError

_LOGGED_STEPS = 10_000
"""Steps that are kept: five minutes at 30 Hz."""


@dataclass(frozen=True)
class Reading:
    """Messages that the driver received since the last step."""

    now: float
    """Time by the driver's clock [s]."""

    messages: Sequence[tuple[str, Message]]
    """Topics and messages."""

    is_first: bool = False
    """Whether an episode begins: nothing is remembered of what was before."""


class Driver(Protocol):
    """Connects the loop to a robot."""

    def receive(self) -> Reading | None:
        """Wait until the next control step, at policy.json's rate; None ends the loop."""
        ...

    def send(self, command: Command) -> None:
        """Send a command to the robot's controller."""
        ...

    def hold(self, reason: str) -> None:
        """Let the robot stop where it is."""
        ...


class PolicyLoop:
    """A policy with its memory, its history and its limits."""

    def __init__(self, policy: ExportedPolicy, limits: Limits | None = None, base_frame: str = "base") -> None:
        """Take a policy, which no other loop may use, and the ``frame_id`` of the robot's base.

        Raises:
            ConfigError: policy.json does not tell what the policy's numbers mean, or the limits do not fit its actions.
        """
        limits = limits or Limits()
        self._policy = policy
        self._inputs = RobotInputs(policy, limits.max_age_s, base_frame)
        self._commands = Commands(policy.description, limits)
        self._last_action = np.zeros(self._commands.size)
        self._episode = 0
        self.log: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_LOGGED_STEPS)
        """The last steps: the episode, and by name what :meth:`save_log` writes."""

    def reset(self) -> None:
        """Start an episode."""
        self._episode += 1
        self._policy.reset()
        self._inputs.reset()
        self._last_action = np.zeros(self._commands.size)

    def react(self, reading: Reading) -> Command:
        """Return the command for what was read.

        Raises:
            StopError: A message is missing, old, empty or cannot be, or the action is no number.
        """
        begin = time.perf_counter()
        if reading.is_first:
            self.reset()
        for topic, message in reading.messages:
            self._inputs.add(topic, message)
        try:
            inputs, stamps = self._inputs.make(reading.now, self._last_action)
        except ConfigError as error:
            raise StopError(str(error)) from error
        action = self._policy.act(inputs)[0]
        if not np.isfinite(action).all():
            raise StopError("the policy's action is NaN or infinite.")

        self._last_action = self._policy.clip(action)
        command = self._commands.make(self._last_action, reading.now, *self._inputs.state())
        row: dict[str, Any] = {"actions": self._last_action, "times/now": reading.now}
        row |= {f"obs/{name}": value[0] for name, value in inputs.items()}
        row |= {f"times/{name}": stamp for name, stamp in stamps.items()}
        row |= {f"commands/{name}": value for name, value in command.parts.items()}
        self.log.append((self._episode, {**row, "latency": time.perf_counter() - begin}))
        return command

    def save_log(self, path: Path) -> None:
        """Write the last steps, five minutes of them, in the layout of demonstrations: ``train.py demos=`` reads it.

        Each episode is a group ``data/demo_<i>`` of T steps: ``actions`` (T, A), clipped; ``obs/<input>``;
        ``commands/<part>``; ``times/now``, ``times/joints`` and ``times/camera`` by the driver's clock, and ``latency``
        from the messages to the command [s]. Needs h5py.
        """
        # The loop itself runs where there is none.
        import h5py

        episodes = [[row for _, row in rows] for _, rows in itertools.groupby(self.log, key=lambda step: step[0])]
        with h5py.File(path, "w") as file:
            data = file.create_group("data")
            data.attrs.update(total=len(self.log), env_args=json.dumps({"description": self._policy.description}))
            for index, rows in enumerate(episodes):
                demo = data.create_group(f"demo_{index}")
                demo.attrs["num_samples"] = len(rows)
                for name in rows[0]:
                    demo.create_dataset(name, data=np.stack([row[name] for row in rows]), compression="gzip")


def drive(loop: PolicyLoop, driver: Driver) -> None:
    """Run the loop until the driver ends it; the robot holds afterwards, whatever happened.

    Raises:
        StopError: Something was wrong; the driver was told.
    """
    reason = "the program ends."
    try:
        while (reading := driver.receive()) is not None:
            driver.send(loop.react(reading))
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise
    finally:
        driver.hold(reason)
