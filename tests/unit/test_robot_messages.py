# SPDX-License-Identifier: BSD-3-Clause
"""examples/robot_messages.py: what is in messages of ROS 2, whatever their layout."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from robot_messages import (
    FLOAT32,
    CameraInfo,
    Image,
    JointState,
    PointCloud2,
    PointField,
    PoseStamped,
    from_ros,
    read_depth,
    read_joints,
    read_mask,
    read_matrix,
    read_points,
    write_points,
)

from isaaclab_pc.errors import ConfigError

MILLIMETRES = np.array([[0, 1, 1000], [2500, 65535, 7]])


def image(pixels: np.ndarray, encoding: str, kind: str, padding: int = 0) -> Image:
    """Return an image whose rows end with bytes that are no pixels."""
    rows = pixels.astype(kind).view(np.uint8).reshape(len(pixels), -1)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=255)
    height, width = pixels.shape
    return Image(1.5, "camera", height, width, encoding, int(kind[0] == ">"), rows.shape[1], rows.tobytes())


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("order", "<>")
def test_millimetres_and_metres_are_the_same_depth(order: str, padding: int) -> None:
    counted = read_depth(image(MILLIMETRES, "16UC1", f"{order}u2", padding))
    measured = read_depth(image(MILLIMETRES / 1000.0, "32FC1", f"{order}f4", padding))
    assert (counted.dtype, measured.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(counted, MILLIMETRES / 1000.0, rtol=1e-6)
    np.testing.assert_allclose(counted, measured, rtol=1e-6)


def test_pixels_without_depth_are_0() -> None:
    depth = read_depth(image(np.array([[np.nan, np.inf, -np.inf, 1.0]]), "32FC1", "<f4"))
    assert depth.tolist() == [[0.0, 0.0, 0.0, 1.0]]


def test_a_mask_is_what_is_not_0() -> None:
    assert read_mask(image(np.array([[0, 255, 1]]), "mono8", "|u1", 2)).tolist() == [[False, True, True]]


@pytest.mark.parametrize(
    ("message", "read", "words"),
    [
        (image(MILLIMETRES, "rgb8", "<u2"), read_depth, "'rgb8'"),
        (image(MILLIMETRES, "16UC1", "<u2"), read_mask, "'16UC1'"),
        (replace(image(MILLIMETRES, "16UC1", "<u2"), height=3), read_depth, "12 bytes"),
        (replace(image(MILLIMETRES, "16UC1", "<u2"), encoding="32FC1"), read_depth, "needs 12"),
    ],
)
def test_images_that_do_not_fit_their_fields_are_refused(message, read, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(message)


INFO = CameraInfo(0.0, "camera", 2, 3, (), (5.0, 0.0, 1.0, 0.0, 6.0, 0.5, 0.0, 0.0, 1.0))


def test_principal_points_are_counted_from_the_corner() -> None:
    assert read_matrix(INFO, (2, 3)).tolist() == [[5.0, 0.0, 1.5], [0.0, 6.0, 1.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("info", "words"), [(replace(INFO, height=4), "3 x 4"), (replace(INFO, d=(0.1, 0)), "rectify")]
)
def test_calibrations_of_other_images_are_refused(info: CameraInfo, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_matrix(info, (2, 3))


@given(
    st.integers(1, 3),
    st.integers(0, 4),
    st.booleans(),
    st.permutations("xyz"),
    st.integers(0, 7),
    st.integers(0, 9),
    st.integers(0, 2**32 - 1),
)
def test_points_are_read_from_any_layout(
    height: int, width: int, is_bigendian: bool, order: list[str], before: int, after: int, seed: int
) -> None:
    points = np.random.default_rng(seed).normal(size=(height, width, 3)).astype(np.float32)
    points[points > 1.0] = np.nan
    step = before + 12 + after
    data = np.full((height, width * step + 3), 255, np.uint8)
    cells = data[:, : width * step].reshape(height, width, step)
    numbers = points[..., ["xyz".index(name) for name in order]].astype(">f4" if is_bigendian else "<f4", order="C")
    cells[..., before : before + 12] = numbers.view(np.uint8).reshape(height, width, 12)
    data[:, : width * step] = cells.reshape(height, width * step)
    fields = [PointField("rgb", 0), *(PointField(name, before + 4 * index) for index, name in enumerate(order))]

    cloud = PointCloud2(0.0, "c", height, width, fields, is_bigendian, step, data.shape[1], data.tobytes(), False)
    np.testing.assert_array_equal(read_points(cloud), points)


def test_points_are_written_as_they_are_read() -> None:
    points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(read_points(write_points(points, 0.0, "camera"))[0], points)


CLOUD = write_points(np.zeros((2, 3)), 0.0, "camera")


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        (replace(CLOUD, fields=CLOUD.fields[:2]), "'z'"),
        (replace(CLOUD, fields=[*CLOUD.fields[:2], PointField("z", 8, FLOAT32 + 1)]), "'z'"),
        (replace(CLOUD, point_step=11, row_step=22, data=bytes(22)), "point_step"),
        (replace(CLOUD, row_step=31, data=bytes(31)), "needs 32"),
    ],
)
def test_clouds_without_points_are_refused(cloud: PointCloud2, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_points(cloud)


@given(st.permutations(["finger", "elbow", "shoulder"]))
def test_joints_are_found_by_their_names(order: list[str]) -> None:
    values = {"shoulder": 1.0, "elbow": 2.0, "finger": 3.0}
    state = JointState(0.0, "", order, [values[name] for name in order], [-values[name] for name in order])
    position, velocity = read_joints(state, ["shoulder", "elbow"])
    assert (position.tolist(), velocity.tolist()) == ([1.0, 2.0], [-1.0, -2.0])


@pytest.mark.parametrize(("velocity", "words"), [([0.0], "no elbow"), ([], "0 velocities")])
def test_joints_that_are_missing_are_named(velocity: list[float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_joints(JointState(0.0, "", ["shoulder"], [0.0], velocity), ["shoulder", "elbow"])


def test_messages_of_ros_are_taken_over() -> None:
    header = SimpleNamespace(stamp=SimpleNamespace(sec=3, nanosec=250_000_000), frame_id="base")
    position, turn = SimpleNamespace(x=1.0, y=2.0, z=3.0), SimpleNamespace(x=0.0, y=0.6, z=0.8, w=0.0)
    pose = SimpleNamespace(header=header, pose=SimpleNamespace(position=position, orientation=turn))
    assert from_ros(PoseStamped, pose) == PoseStamped(3.25, "base", (1.0, 2.0, 3.0), (0.0, 0.6, 0.8, 0.0))
    joints = SimpleNamespace(header=header, name=["elbow"], position=[1.0], velocity=[2.0], effort=[0.0])
    assert from_ros(JointState, joints) == JointState(3.25, "base", ["elbow"], [1.0], [2.0])
