# SPDX-License-Identifier: BSD-3-Clause
"""Whether a camera can see a box, against many points of the box that are projected into its image."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from isaaclab_pc.sensors.visibility import _COLUMNS, can_see_box

NEAR, FAR = 0.05, 4.0
POINTS = 12
"""Sampled points along each edge of a box."""

QUARTERS = [
    Rotation.from_euler("xyz", turns, degrees=True).as_quat() for turns in itertools.product((0, 90, 180), repeat=3)
]
"""Orientations in which rays run along faces of the boxes."""


def camera_of(position: Any, rotation: Any, width: int = 64, height: int = 48, aperture: float = 20.0) -> Any:
    """A pinhole camera as its config describes it, with a focal length of 20 mm and square pixels."""
    spawn = SimpleNamespace(
        horizontal_aperture=aperture, vertical_aperture=None, focal_length=20.0, clipping_range=(NEAR, FAR)
    )
    offset = SimpleNamespace(pos=tuple(position), rot=tuple(rotation), convention="ros")
    return SimpleNamespace(spawn=spawn, width=width, height=height, offset=offset)


def slopes(camera: Any) -> tuple[float, float]:
    """Largest x / z and y / z of what is in the image."""
    x = camera.spawn.horizontal_aperture / camera.spawn.focal_length / 2
    return x, x * camera.height / camera.width


def sample(camera: Any, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, float]:
    """Points of a box in the camera's frame, shape (N, 3), and how far from the nearest a point of the box may be."""
    share = (np.arange(POINTS) + 0.5) / POINTS
    grid = np.stack(np.meshgrid(share, share, share), axis=-1).reshape(-1, 3)
    points = lower + grid * (upper - lower)
    seen = Rotation.from_quat(camera.offset.rot).inv().apply(points - np.asarray(camera.offset.pos))
    return seen, float(np.linalg.norm((upper - lower) / POINTS / 2)) + 1e-9


def coordinates(least: float, most: float) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(least, most), min_size=3, max_size=3).map(np.array)


rotations = st.one_of(
    st.sampled_from(QUARTERS),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda quat: np.linalg.norm(quat) > 0.1),
)

SCENES = {
    "position": coordinates(-2, 2),
    "rotation": rotations,
    "lower": coordinates(-2, 2),
    "size": coordinates(0.01, 2),
    "width": st.sampled_from([1, 2, 7, 64, 640]),
    "height": st.sampled_from([1, 3, 48, 480]),
    "aperture": st.sampled_from([2.0, 20.0, 60.0]),
}


@given(
    position=coordinates(-2, 2),
    rotation=rotations,
    image=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    depth=st.floats(NEAR, FAR),
    extra=st.tuples(coordinates(0, 1), coordinates(0, 1)),
    width=SCENES["width"],
    height=SCENES["height"],
    aperture=SCENES["aperture"],
)
@settings(max_examples=400)
def test_a_box_around_a_point_in_the_image_is_seen_if_it_is_wider_than_the_gap_between_rays(
    position: np.ndarray,
    rotation: Any,
    image: tuple[float, float],
    depth: float,
    extra: tuple[np.ndarray, np.ndarray],
    width: int,
    height: int,
    aperture: float,
) -> None:
    camera = camera_of(position, rotation, width, height, aperture)
    slope_x, slope_y = slopes(camera)
    seen = depth * np.array([image[0] * slope_x, image[1] * slope_y, 1.0])
    point = Rotation.from_quat(rotation).apply(seen) + position

    # Some ray passes the point within half a gap between rays, and thus through a box that reaches that far.
    half_gap = depth * np.hypot(slope_x / min(width, _COLUMNS), slope_y / min(height, _COLUMNS)) + 1e-6
    lower = point - half_gap - extra[0]
    upper = point + half_gap + extra[1]
    assert can_see_box(camera, lower.tolist(), upper.tolist())


@given(**SCENES)
@settings(max_examples=400)
def test_a_box_that_is_said_to_be_seen_has_points_in_the_image(
    position: np.ndarray, rotation: Any, lower: np.ndarray, size: np.ndarray, width: int, height: int, aperture: float
) -> None:
    camera = camera_of(position, rotation, width, height, aperture)
    if not can_see_box(camera, lower.tolist(), (lower + size).tolist()):
        return

    # A sampled point is near the one that a ray meets.
    points, gap = sample(camera, lower, lower + size)
    x, y, z = points.T
    slope_x, slope_y = slopes(camera)
    near_image = (
        (z >= NEAR - gap)
        & (z <= FAR + gap)
        & (np.abs(x) <= slope_x * (z + gap) + gap)
        & (np.abs(y) <= slope_y * (z + gap) + gap)
    )
    assert near_image.any()


IDENTITY = (0.0, 0.0, 0.0, 1.0)
"""The camera looks along +z, x to the right, y down."""


def test_a_vertical_aperture_is_ignored_as_isaac_lab_ignores_it() -> None:
    camera = camera_of((0, 0, 0), IDENTITY)
    camera.spawn.vertical_aperture = 40.0
    assert not can_see_box(camera, (-0.1, 0.45, 1.0), (0.1, 0.8, 1.1))
