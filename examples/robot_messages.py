# SPDX-License-Identifier: BSD-3-Clause
"""A robot's messages, laid out as those of ROS 2, and the arrays that are in them; needs NumPy alone, not ROS.

Fields have the names and the meaning of ROS's messages, but for the header: ``stamp`` is its time in seconds, and
``frame_id`` its frame. :func:`from_ros` makes them of what a subscription of rclpy receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from isaaclab_pc.errors import ConfigError

Floats = Sequence[float] | np.ndarray

FLOAT32 = 7
"""``sensor_msgs/PointField``'s number for float32."""

_DEPTH_ENCODINGS = {"16UC1": ("u2", 1e-3), "32FC1": ("f4", 1.0)}
"""Type of a pixel, and metres for its unit, by the encodings of REP 118."""

_MASK_ENCODINGS = ("8UC1", "mono8")


@dataclass(frozen=True)
class Message:
    """The header of all messages."""

    stamp: float
    """Time of the measurement, by the driver's clock [s]."""

    frame_id: str
    """Frame of its numbers."""


@dataclass(frozen=True)
class Image(Message):
    """``sensor_msgs/Image``: depth as 16UC1 [mm] or 32FC1 [m], or a mask as 8UC1."""

    height: int
    width: int
    encoding: str
    is_bigendian: int
    step: int
    """Bytes from one row to the next."""
    data: bytes


@dataclass(frozen=True)
class CameraInfo(Message):
    """``sensor_msgs/CameraInfo``."""

    height: int
    width: int
    d: Floats
    """Distortion; empty or 0 for rectified images."""
    k: Floats
    """Pinhole matrix row by row [px], counted from the middle of the first pixel, 9 numbers."""


@dataclass(frozen=True)
class PointField:
    """``sensor_msgs/PointField``: where in a point's bytes one of its numbers is."""

    name: str
    offset: int
    datatype: int = FLOAT32
    count: int = 1


@dataclass(frozen=True)
class PointCloud2(Message):
    """``sensor_msgs/PointCloud2`` in the camera's optical frame: x right, y down, z forward [m]."""

    height: int
    width: int
    fields: Sequence[PointField]
    is_bigendian: bool
    point_step: int
    """Bytes from one point to the next."""
    row_step: int
    """Bytes from one row to the next."""
    data: bytes
    is_dense: bool
    """Whether all points are finite; they are checked whatever it says."""


@dataclass(frozen=True)
class JointState(Message):
    """``sensor_msgs/JointState``: joints in any order, [rad] or [m], [rad/s] or [m/s]."""

    name: Sequence[str]
    position: Floats
    velocity: Floats


@dataclass(frozen=True)
class PoseStamped(Message):
    """``geometry_msgs/PoseStamped``, its pose as two arrays."""

    position: Floats
    """x, y, z in ``frame_id`` [m]."""
    orientation: Floats = (0.0, 0.0, 0.0, 1.0)
    """x, y, z, w."""


@dataclass(frozen=True)
class Numbers(Message):
    """``std_msgs/Float64MultiArray`` with a header: what a task tells its policy beside a goal."""

    data: Floats


def from_ros[M: Message](kind: type[M], message: Any) -> M:
    """Make a message of this file of one that rclpy received; its pose and its header become plain numbers."""
    stamp = message.header.stamp
    header = {"stamp": stamp.sec + 1e-9 * stamp.nanosec, "frame_id": message.header.frame_id}
    if kind is PoseStamped:
        position, turn = message.pose.position, message.pose.orientation
        values = {"position": (position.x, position.y, position.z), "orientation": (turn.x, turn.y, turn.z, turn.w)}
    else:
        values = {field.name: getattr(message, field.name) for field in fields(kind) if field.name not in header}
    return kind(**header, **values)


def read_depth(image: Image) -> np.ndarray:
    """Return distances to the image plane [m], shape (H, W), float32; 0 where there is none.

    Raises:
        ConfigError: The encoding is none of REP 118, or the data have another size than the fields say.
    """
    if image.encoding not in _DEPTH_ENCODINGS:
        raise ConfigError(
            f"a depth image is encoded as {image.encoding!r}: publish 16UC1 (millimetres) or 32FC1 (metres)."
        )
    kind, scale = _DEPTH_ENCODINGS[image.encoding]
    depth = _pixels(image, np.dtype(kind)).astype(np.float32) * np.float32(scale)
    return np.where(np.isfinite(depth), depth, np.float32(0.0))


def read_mask(image: Image) -> np.ndarray:
    """Return where a mask is not 0, shape (H, W), bool; raises ConfigError as :func:`read_depth`."""
    if image.encoding not in _MASK_ENCODINGS:
        raise ConfigError(f"a mask is encoded as {image.encoding!r}: publish {' or '.join(_MASK_ENCODINGS)}.")
    return _pixels(image, np.dtype("u1")) != 0


def read_matrix(info: CameraInfo, size: tuple[int, int]) -> np.ndarray:
    """Return the pinhole matrix for images of (H, W), counted from the corner of the first pixel [px], (3, 3), float32.

    Raises:
        ConfigError: It is the calibration of another size, or of images that are not rectified.
    """
    if (info.height, info.width) != size:
        raise ConfigError(
            f"camera_info is of {info.width} x {info.height} px, its images of {size[1]} x {size[0]} px: publish both "
            "of one size."
        )
    if np.any(info.d):
        raise ConfigError(f"camera_info has the distortion {list(info.d)}: rectify the images, or publish points.")
    matrix = np.array(info.k, dtype=np.float32).reshape(3, 3)
    matrix[:2, 2] += 0.5
    return matrix


def read_points(cloud: PointCloud2) -> np.ndarray:
    """Return x, y, z [m], shape (H, W, 3), float32; NaN or infinite where the message has it.

    Raises:
        ConfigError: A point has no x, y or z of float32, or the data have another size than the fields say.
    """
    places = {field.name: field for field in cloud.fields}
    for name in "xyz":
        if name not in places or (places[name].datatype, places[name].count) != (FLOAT32, 1):
            raise ConfigError(f"a point cloud has no field {name!r} of one float32: it has {list(cloud.fields)}.")
        if places[name].offset + 4 > cloud.point_step:
            raise ConfigError(f"a point cloud's {name!r} ends after the point_step of {cloud.point_step} bytes.")
    layout: Any = {
        "names": list("xyz"),
        "formats": [_ordered(np.dtype("f4"), cloud.is_bigendian)] * 3,
        "offsets": [places[name].offset for name in "xyz"],
        "itemsize": cloud.point_step,
    }
    rows = _rows(cloud.data, cloud.height, cloud.row_step, cloud.width * cloud.point_step)
    points = rows.view(np.dtype(layout))
    return np.stack([points[name] for name in "xyz"], axis=-1).astype(np.float32)


def read_joints(state: JointState, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities of joints in the order of their names, shape (J,) each, float32.

    Raises:
        ConfigError: A joint is missing, or there is not one position and one velocity for each.
    """
    if not len(state.name) == len(state.position) == len(state.velocity):
        raise ConfigError(
            f"a joint state has {len(state.name)} names, {len(state.position)} positions and {len(state.velocity)} "
            "velocities: publish all three of each joint, also of the gripper's."
        )
    places = {name: index for index, name in enumerate(state.name)}
    missing = [name for name in names if name not in places]
    if missing:
        raise ConfigError(f"a joint state has no {', '.join(missing)}; it has {', '.join(state.name)}.")
    index = [places[name] for name in names]
    return np.array(state.position, np.float32)[index], np.array(state.velocity, np.float32)[index]


def write_points(points: np.ndarray, stamp: float, frame_id: str) -> PointCloud2:
    """Return a cloud of points [m], shape (M, 3), in one row, as depth cameras' drivers publish it: 16 bytes each."""
    data = np.zeros((len(points), 4), "<f4")
    data[:, :3] = points
    places = [PointField(name, 4 * index) for index, name in enumerate("xyz")]
    return PointCloud2(stamp, frame_id, 1, len(points), places, False, 16, 16 * len(points), data.tobytes(), True)


def _pixels(image: Image, kind: np.dtype) -> np.ndarray:
    rows = _rows(image.data, image.height, image.step, image.width * kind.itemsize)
    return rows.view(_ordered(kind, bool(image.is_bigendian)))


def _ordered(kind: np.dtype, is_bigendian: bool) -> np.dtype:
    return kind.newbyteorder(">" if is_bigendian else "<")


def _rows(data: bytes, height: int, step: int, used: int) -> np.ndarray:
    """Return the bytes of each row without its padding, shape (H, used), uint8."""
    if len(data) != height * step or step < used:
        raise ConfigError(
            f"a message has {len(data)} bytes, {height} rows of {step}; a row needs {used}: its fields do not fit."
        )
    return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(height, step)[:, :used])
