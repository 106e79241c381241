# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the point cloud."""

from __future__ import annotations

from typing import Literal

from isaaclab.utils import configclass

from isaaclab_pc.errors import ConfigError


@configclass
class PointCloudCfg:
    """Which pixels of a depth camera become points, and in which frame."""

    num_points: int = 128
    """Points per environment, K."""

    crop_lower: tuple[float, float, float] = (-1.0, -1.0, -1.0)
    """Smallest x, y, z kept [m], in the environment frame."""

    crop_upper: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Largest x, y, z kept [m], in the environment frame."""

    frame: Literal["env", "robot", "gripper"] = "env"
    """Frame of the returned points: the environment's origin, the robot's base or the tool centre."""

    remove: tuple[str, ...] = ("robot",)
    """Semantic classes whose pixels are dropped; a real robot does the same with a self-filter."""

    dtype: Literal["float16", "float32"] = "float16"
    """Storage type. At 1 m from the frame's origin, float16 rounds by at most 0.25 mm (half its spacing of 2^-11 m)."""

    def check(self, height: int, width: int) -> None:
        """Refuse a cloud that the camera cannot fill.

        Args:
            height: Rows of the depth image.
            width: Columns of the depth image.

        Raises:
            ConfigError: A value is out of its range.
        """
        if self.num_points < 1:
            raise ConfigError(f"points.num_points={self.num_points} must be at least 1.")
        if self.num_points > height * width:
            raise ConfigError(
                f"points.num_points={self.num_points} is more than the camera's {height} x {width} = {height * width} "
                f"pixels: use at most {height * width}, or a larger env.scene.camera.width and height."
            )
        for axis, lower, upper in zip("xyz", self.crop_lower, self.crop_upper, strict=True):
            if not lower < upper:
                raise ConfigError(f"The crop is empty along {axis}: crop_lower {lower} m is not below {upper} m.")
