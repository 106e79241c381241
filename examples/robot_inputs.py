# SPDX-License-Identifier: BSD-3-Clause
"""From a robot's messages to an exported policy's inputs, checked, for examples/robot_loop.py."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from check_recording import check_frames
from exported_policy import ExportedPolicy, side_by_side
from read_recording import Recording, check_arrays
from robot_commands import Pose, rotated, turned
from robot_messages import Image, Message, PointCloud2, read_depth, read_joints, read_mask, read_matrix, read_points

from isaaclab_pc.errors import ConfigError

_IDENTITY: Pose = (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))
_OF_IMAGES = ("depth_", "intrinsics_", "centers_", "removed_")
_SPEED_SCALE = 0.1
"""Of joint velocities in the input ``policy``, as their meaning in policy.json says."""
_SPAN_S = 1.0
"""Least time that messages are kept [s]."""


class StopError(Exception):
    """The robot has to hold; the message says why."""


class Timeline:
    """The last messages of a topic by their stamps: late ones find their place, a second one of a stamp replaces it."""

    def __init__(self, span: float) -> None:
        """Forget what is older than the newest one by more than ``span`` [s]."""
        self._span = span
        self._stamps: list[float] = []
        self._values: list[Any] = []

    @property
    def newest(self) -> float:
        """The largest stamp [s]."""
        return self._stamps[-1]

    def add(self, stamp: float, value: Any) -> None:
        """Keep a value."""
        index = bisect_left(self._stamps, stamp)
        if index < len(self._stamps) and self._stamps[index] == stamp:
            self._values[index] = value
            return
        self._stamps.insert(index, stamp)
        self._values.insert(index, value)
        oldest = bisect_left(self._stamps, self.newest - self._span)
        del self._stamps[:oldest]
        del self._values[:oldest]

    def nearest(self, stamp: float) -> tuple[float, Any]:
        """Return the stamp and the value nearest to a time; of two as near, the later one."""
        after = min(bisect_left(self._stamps, stamp), len(self._stamps) - 1)
        before = max(after - 1, 0)
        index = before if stamp - self._stamps[before] < self._stamps[after] - stamp else after
        return self._stamps[index], self._values[index]

    def last(self, length: int, period: float) -> list[tuple[float, Any]]:
        """Return what is nearest to each of ``length`` times, ``period`` [s] apart and up to the newest one."""
        return [self.nearest(self.newest - ago * period) for ago in reversed(range(length))]


class RobotInputs:
    """The last messages of a robot, and the policy's inputs that are made of them."""

    def __init__(self, policy: ExportedPolicy, max_age_s: float, base_frame: str) -> None:
        """Read what policy.json says of the inputs.

        Raises:
            ConfigError: It does not tell what the numbers mean.
        """
        description = policy.description
        parts = [part for entry in description["inputs"] for part in entry.get("parts", [])]
        self._parts = [part for part in parts if part.get("steps_ago", 0) == 0]
        if not self._parts:
            raise ConfigError("policy.json tells no parts of the input policy: export one of a task of this package.")

        self._policy = policy
        self._max_age_s = max_age_s
        self._period = 1.0 / description["output"]["rate_hz"]
        self._span = max(_SPAN_S, 2.0 * policy.length * self._period)
        self._cloud: dict[str, Any] | None = description.get("cloud")
        self._cameras = ["camera"] if any("max_depth" in entry for entry in description["inputs"]) else []
        if self._cloud is not None:
            self._cameras = self._cloud["cameras"]

        robot = description["robot"]
        self._arm: list[str] = robot["arm_joints"]
        has_fingers = any(part["name"].startswith("finger_") for part in self._parts)
        self._joints = [*self._arm, *(robot["finger_joints"] if has_fingers else [])]
        self._default = np.array([robot["default_joint_pos"][name] for name in self._joints])
        self._base: Pose = (
            np.array(robot.get("base_pos", (0.0, 0.0, 0.0))),
            np.array(robot.get("base_quat", (0.0, 0.0, 0.0, 1.0))),
        )
        self._frames: dict[str, Pose] = {"env": _IDENTITY, base_frame: self._base}
        self._known_quat = self._recorded_tool_quat()
        self._topics: dict[str, Timeline] = {}
        self._draws = 0
        self.reset()

    def reset(self) -> None:
        """Start an episode: its frames are its own."""
        self._vectors = Timeline(self._span)
        self._seen: dict[float, dict[str, np.ndarray]] = {}
        for name in self._cameras:
            self._topics.pop(name, None)

    def add(self, topic: str, message: Message) -> None:
        """Keep a message."""
        self._topics.setdefault(topic, Timeline(self._span)).add(message.stamp, message)

    def make(self, now: float, last_action: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Return the policy's inputs, (1, ...) each, and the stamps of the newest messages in them [s].

        Args:
            now: Time by the driver's clock [s].
            last_action: The policy's last action, clipped, shape (A,).

        Raises:
            StopError: A message is missing or too old.
            ConfigError: A message cannot be read, or a check of examples/check_recording.py fails.
        """
        self._check_ages(now)
        stamp, _ = self._nearest("joint_states")
        vector = self._vector(stamp, last_action)
        # In each step: the camera's frame, with all other checks, may be that of the last one.
        check_frames(self._policy.description, {"policy": vector[None]}, None)
        self._vectors.add(stamp, vector)
        frames = [{"policy": value} for _, value in self._vectors.last(self._policy.length, self._period)]
        stamps = {"joints": stamp}
        if self._cameras:
            camera = self._topics[self._cameras[0]]
            stamps["camera"] = camera.newest
            wanted = [at for at, _ in camera.last(self._policy.length, self._period)]
            self._seen = {at: self._seen.get(at) or self._see(at, vector) for at in dict.fromkeys(wanted)}
            frames = [self._seen[at] | frame for at, frame in zip(wanted, frames, strict=True)]

        if self._policy.length == 1:
            return {name: value[None] for name, value in frames[0].items()}, stamps
        return {name: side_by_side(np.stack([frame[name] for frame in frames])[None]) for name in frames[0]}, stamps

    def state(self) -> tuple[Pose, np.ndarray]:
        """Return the newest pose of the tool in the frame env, and the newest positions of the arm's joints [rad]."""
        arm, _ = read_joints(self._nearest("joint_states")[1], self._arm)
        return self._tool_pose(np.inf), arm

    def _vector(self, stamp: float, last_action: np.ndarray) -> np.ndarray:
        """Return the input ``policy`` of a time, shape (P,)."""
        position, velocity = read_joints(self._nearest("joint_states", stamp)[1], self._joints)
        arm = len(self._arm)
        tool_pos, tool_quat = self._tool_pose(stamp)
        values = {
            "arm_joint_pos": (position - self._default)[:arm],
            "finger_joint_pos": (position - self._default)[arm:],
            "arm_joint_vel": _SPEED_SCALE * velocity[:arm],
            "finger_joint_vel": _SPEED_SCALE * velocity[arm:],
            "tool_pos": tool_pos,
            "tool_quat": tool_quat,
            "last_action": last_action,
        }
        names = [part["name"] for part in self._parts]
        if "goal_pos" in names:
            values["goal_pos"], _ = self._pose(self._nearest("goal")[1])
            values["goal_from_tool"] = values["goal_pos"] - tool_pos
        values |= {name: np.asarray(self._nearest(name)[1].data) for name in names if name not in values}
        for part in self._parts:
            if values[part["name"]].shape != (part["size"],):
                raise ConfigError(f"{part['name']} has {values[part['name']].size} numbers, expected {part['size']}.")
        vector = np.concatenate([values[name] for name in names]).astype(np.float32)
        bad = [name for name in names if not np.isfinite(values[name]).all()]
        if bad:
            raise ConfigError(f"{', '.join(bad)} of policy is NaN or infinite.")
        return vector

    def _see(self, stamp: float, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Return the inputs that are made of the cameras' messages of a time, checked."""
        arrays = {"policy": vector[None]}
        for name in self._cameras:
            arrays |= self._camera_arrays(name, self._nearest(name, stamp)[1])
        points = None
        if self._cloud is None:
            recording = self._checked(arrays)
            check_frames(self._policy.description, recording, None)
        else:
            recording = self._checked(arrays | self._poses(stamp))
            points = self._checked_points(recording)
        frames = self._policy.frames(recording, points)
        return {name: value[0] for name, value in frames.items() if name != "policy"}

    def _poses(self, stamp: float) -> Recording:
        """Return the poses of a recording, and the key of the cloud's random draw."""
        assert self._cloud is not None
        of_cameras = {name: self._pose(self._nearest(f"{name}/pose", stamp)[1]) for name in self._cameras}
        known = {"env": _IDENTITY, "robot": self._base, "gripper": self._tool_pose(stamp)}
        known["camera"] = of_cameras[self._cameras[0]]
        poses = {"crop_{}": known[self._cloud["crop_frame"]], "frame_{}": known[self._cloud["frame"]]}
        poses |= {f"camera_{{}}_{name}": pose for name, pose in of_cameras.items()}
        arrays = {name.format("pos"): pos[None] for name, (pos, _) in poses.items()}
        arrays |= {name.format("quat"): quat[None] for name, (_, quat) in poses.items()}
        arrays["key"] = np.array([self._draws])
        self._draws += 1
        return arrays

    def _checked_points(self, recording: Recording) -> np.ndarray:
        """Return the cloud of a recording of one frame, shape (1, K, F), if all checks pass."""
        points, counts = self._policy.clouds(recording)
        checked = recording
        if any(name.startswith("centers_") for name in recording):
            # Points in the form of an image are none that could be checked.
            checked = {name: value for name, value in recording.items() if not name.startswith(_OF_IMAGES)}

        def count(given: Recording) -> np.ndarray:
            return counts if given is checked else self._policy.clouds(recording | given)[1]

        check_frames(self._policy.description, checked, count)
        return points

    def _camera_arrays(self, name: str, message: Message) -> Recording:
        """Return a recording's arrays of one message of a camera."""
        if isinstance(message, PointCloud2) and self._cloud is not None:
            return self._point_arrays(name, message, self._cloud)
        if not isinstance(message, Image):
            raise ConfigError(f"{name} is a {type(message).__name__}, which this policy cannot read: give an Image.")

        arrays = {f"depth_{name}": read_depth(message)[None]}
        if self._cloud is not None:
            info = self._nearest(f"{name}/info", message.stamp)[1]
            arrays[f"intrinsics_{name}"] = read_matrix(info, (message.height, message.width))[None]
        if f"{name}/removed" in self._topics:
            arrays[f"removed_{name}"] = read_mask(self._nearest(f"{name}/removed", message.stamp)[1])[None]
        return arrays

    def _point_arrays(self, name: str, message: PointCloud2, cloud: dict[str, Any]) -> Recording:
        """Return points in the form of an image: the ray of each pixel goes through its point."""
        points = read_points(message)
        if message.height == 1:
            if "normals" in cloud["channels"]:
                raise ConfigError(f"{name}: normals need neighbours: publish organized clouds, or images.")
            # Images of one size, for one operator, and no smaller than the cloud.
            size = max(points.shape[1], cloud["num_points"])
            points = np.pad(points, ((0, 0), (0, (1 << (size - 1).bit_length()) - points.shape[1]), (0, 0)))
        is_point = np.isfinite(points).all(axis=-1) & (points[..., 2] > 0.0)
        points = np.where(is_point[..., None], points, np.array([0.0, 0.0, 1.0], np.float32))
        return {
            f"depth_{name}": np.where(is_point, points[..., 2], np.float32(0.0))[None],
            f"centers_{name}": (points[..., :2] / points[..., 2:])[None],
            f"intrinsics_{name}": np.eye(3)[None],
        }

    def _checked(self, arrays: Recording) -> Recording:
        return check_arrays(arrays, self._policy.description, self._policy.shapes, "the messages")

    def _nearest(self, topic: str, stamp: float = np.inf) -> tuple[float, Any]:
        """Return the message nearest to a time, or the newest one, with its stamp."""
        if topic not in self._topics:
            raise StopError(f"nothing has come on {topic}.")
        return self._topics[topic].nearest(stamp)

    def _check_ages(self, now: float) -> None:
        for topic in ("joint_states", "tool_pose", *self._cameras):
            age = now - self._nearest(topic)[0]
            if not abs(age) <= self._max_age_s:
                when = f"{age:.3f} s old" if age > 0.0 else f"{-age:.3f} s ahead of the driver's clock"
                raise StopError(f"the newest message on {topic} is {when}; at most {self._max_age_s:g} s.")

    def _pose(self, message: Any) -> Pose:
        """Return a message's pose in the frame env."""
        if message.frame_id not in self._frames:
            raise ConfigError(
                f"a pose is in the frame {message.frame_id!r}: give it in {' or '.join(self._frames)}, or set "
                "base_frame."
            )
        pos, quat = self._frames[message.frame_id]
        return pos + rotated(quat, np.asarray(message.position)), turned(quat, np.asarray(message.orientation))

    def _tool_pose(self, stamp: float) -> Pose:
        pos, quat = self._pose(self._nearest("tool_pose", stamp)[1])
        # A quaternion and its negative are one orientation; the policy knows the simulator's.
        return pos, quat if self._known_quat is None or quat @ self._known_quat >= 0.0 else -quat

    def _recorded_tool_quat(self) -> np.ndarray | None:
        """Return the first orientation of the tool in the export's sample."""
        path = self._policy.folder / "sample.npz"
        columns = [part["from"] - self._parts[0]["from"] for part in self._parts if part["name"] == "tool_quat"]
        if not columns or not path.is_file():
            return None
        return np.load(path)["policy"][0, columns[0] : columns[0] + 4]
