# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the point cloud."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from isaaclab_pc.settings.base import Expects, Settings

Feature = Literal["rgb", "normals", "segmentation", "camera"]

PointEncoder = Literal["pointnet", "dp3"]
"""Kinds of encoders of clouds."""

_FURTHEST = 100.0
"""Largest coordinate of a crop [m]."""


def check_distinct(value: Any) -> Any:
    """Refuse a list with a name that is given twice."""
    if isinstance(value, list) and len(set(value)) < len(value):
        raise ValueError("a name is given twice")
    return value


def _check_crop(crop: list[list[float]]) -> list[list[float]]:
    is_interval = [len(part) == 2 and -_FURTHEST <= part[0] < part[1] <= _FURTHEST for part in crop]
    if is_interval != [True, True, True]:
        raise ValueError("not three intervals")
    return crop


Crop = Annotated[
    list[list[float]],
    AfterValidator(_check_crop),
    Expects(f"[[x0,x1],[y0,y1],[z0,z1]] in m with x0 < x1 and so on, within {_FURTHEST:g} m"),
]

Features = Annotated[
    list[Feature],
    AfterValidator(check_distinct),
    Expects("a list of rgb, normals, segmentation, camera", get_args(Feature)),
]


class PointsSettings(Settings):
    """How a depth image becomes a cloud. ``null`` keeps the task's own value."""

    group = "points"

    num_points: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Points per environment, at most the camera's pixels."""

    source: Literal["auto", "rays", "image"] | None = None
    """rays casts the rays of the points alone, image renders whole images; auto casts rays where it can."""

    sampler: Literal["random", "grid", "voxel", "fps"] | None = None
    """How points are chosen among the pixels: random, grid (spread over the image), voxel, or fps (farthest points)."""

    frame: Literal["env", "robot", "gripper", "camera"] | None = None
    """Frame of the points."""

    features: Features | None = None
    """Further channels of a point, after x, y, z."""

    crop: Crop | None = None
    """Workspace in the environment's frame; what is outside is dropped."""

    remove_robot: bool | None = None
    """true drops the robot's own pixels."""

    realism: Literal["none", "structured_light", "stereo", "mixed", "mixed_with_none"] | None = None
    """Depth errors of such a camera are added; mixed draws one of the two in each environment at each reset,
    mixed_with_none one of them or none."""

    dtype: Literal["float16", "float32"] | None = None
    """How points are stored; arithmetic is float32."""
