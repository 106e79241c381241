# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the point-cloud sensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, get_args

from isaaclab.sensors import SensorBaseCfg
from isaaclab.utils import configclass

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.appended_points_cfg import BodyPointsCfg, GivenPointsCfg
from isaaclab_pc.sensors.cloud_checks import check_cloud
from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg, as_cfgs

if TYPE_CHECKING:
    from isaaclab_pc.sensors.point_cloud import PointCloud

Source = Literal["auto", "rays", "image"]
Frame = Literal["env", "robot", "gripper", "camera"]
Feature = Literal["rgb", "normals", "segmentation", "one_hot", "camera"]

FRAMES: tuple[Frame, ...] = ("env", "robot", "gripper", "camera")
FEATURES: tuple[Feature, ...] = ("rgb", "normals", "segmentation", "one_hot", "camera")


@configclass
class PointCloudCfg(SensorBaseCfg):
    """Which pixels of which depth cameras become points, in which frame, and what is known of each point.

    Put it into any scene beside the cameras it reads::

        scene.points = PointCloudCfg(cameras=("camera",), num_points=512)

    and read ``scene["points"].data.points.torch``, or in a manager-based environment use
    :func:`isaaclab_pc.sensors.cloud_points` as the observation term.
    """

    class_type: type[PointCloud] | str = "{DIR}.point_cloud:PointCloud"

    prim_path: str = "{ENV_REGEX_NS}/PointCloud"
    """A name below each environment; nothing is spawned there."""

    cameras: Sequence[str] = ("camera",)
    """Names of the scene's depth cameras, fused into one cloud; each may have a resolution of its own. A camera needs
    ``depth`` or ``distance_to_image_plane`` among its ``data_types``, and what ``remove`` and ``features`` ask for."""

    source: Source = "auto"
    """Where the points come from:

    - ``rays``: rays are cast at the pixels that the cloud keeps, and no image is rendered. It takes Newton's Warp
      renderer, and knows no colours. On a GPU it has not run yet;
    - ``image``: whole images are rendered, and pixels of them chosen;
    - ``auto``: rays where they can be, otherwise images.

    The points of the sampler ``random`` are the same either way, a camera's errors included. ``voxel`` and ``fps``
    choose among four times as many random pixels; by rays ``grid`` does, too."""

    num_points: int = 128
    """Points per environment, K."""

    sampler: Literal["random", "grid", "voxel", "fps"] = "random"
    """How K of the valid pixels are chosen: see :class:`DepthToCloud`."""

    voxel_size: float = 0.01
    """Edge of a voxel of ``sampler="voxel"`` [m]."""

    frame: Frame = "env"
    """Frame of the returned points: the environment's origin, the robot's base, the gripper, or the first camera's
    optical frame."""

    crop_frame: Frame | None = None
    """Frame of the crop; None is ``frame``."""

    crop_lower: tuple[float, float, float] = (-1.0, -1.0, -1.0)
    """Smallest x, y, z kept [m], in the crop's frame."""

    crop_upper: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Largest x, y, z kept [m], in the crop's frame."""

    robot: str = "robot"
    """Name of the scene's articulation that the frames ``robot`` and ``gripper`` belong to."""

    gripper_body: str = "panda_hand"
    """Body of the robot that carries the frame ``gripper``."""

    gripper_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Origin of the frame ``gripper`` in the body's frame [m]."""

    remove: Sequence[str] = ()
    """Semantic classes of pixels that give no points, such as ``("robot", "table", "ground")``. Needs
    ``semantic_segmentation`` among the cameras' ``data_types``."""

    features: Sequence[Feature] = ()
    """Values of each point after x, y, z, in this order:

    - ``rgb``: colour in [0, 1], 3 channels; without rays, needs ``rgb`` or ``rgba`` from the cameras;
    - ``normals``: unit normal towards the camera in the points' frame, 3: by rays the surface's own, whatever the
      camera's errors, and in images from the depth of the neighbour pixels;
    - ``segmentation``: the renderer's semantic id, 1; needs ``semantic_segmentation``;
    - ``one_hot``: 1 at the point's class of ``classes``; needs ``semantic_segmentation``;
    - ``camera``: position in ``cameras`` of the camera that saw it, 1.

    Appended points carry zeros, and -1 as camera."""

    classes: Sequence[str] = ()
    """Semantic classes of ``one_hot``; a point of another class is all zeros."""

    append: Sequence[BodyPointsCfg | GivenPointsCfg] = ()
    """Points added after the K seen ones, such as the robot's own hand or a goal."""

    realism: DepthRealismCfg | tuple[DepthRealismCfg, ...] | None = None
    """Errors of a real depth camera, or of several, of which each environment draws one at each reset; None is the
    renderer's exact depth, and so is one of several that has no errors, for all cameras."""

    realism_of: dict[str, DepthRealismCfg] = field(default_factory=dict)
    """Errors of single cameras, by name, in the place of those of ``realism`` where that is given: those of a
    short-range camera on the hand, for one. All are as late as ``realism`` says; a camera that the cloud does not
    read may be named."""

    dtype: Literal["float16", "float32"] = "float16"
    """Storage type. float16 rounds by at most 2^-11 of a coordinate: 0.25 mm below 1 m from the frame's origin, 0.5 mm
    below 2 m."""

    seed: int = 0
    """Seed of the sampling and of the camera's errors."""

    def check(self, image_sizes: Sequence[tuple[int, int]]) -> None:
        """Raise ConfigError, naming the value and what would do, for what cameras of (H, W) each cannot fill."""
        if len(self.cameras) == 0 or len(set(self.cameras)) < len(self.cameras):
            raise ConfigError(f"points.cameras={list(self.cameras)} must name at least one camera, each once.")
        for name, value in (("frame", self.frame), ("crop_frame", self.crop_frame or self.frame)):
            if value not in FRAMES:
                raise ConfigError(f"points.{name}={value!r} is unknown: use one of {', '.join(FRAMES)}.")
        unknown = [feature for feature in self.features if feature not in FEATURES]
        if unknown or len(set(self.features)) < len(self.features):
            raise ConfigError(
                f"points.features={list(self.features)}: name each of {', '.join(FEATURES)} at most once."
            )
        if ("one_hot" in self.features) != (len(self.classes) > 0):
            raise ConfigError(
                f"points.features={list(self.features)} with points.classes={list(self.classes)}: the feature one_hot "
                "and its classes go together."
            )
        if self.source not in get_args(Source):
            raise ConfigError(f"points.source={self.source!r} is unknown: use one of {', '.join(get_args(Source))}.")
        for realism in as_cfgs(self.realism):
            realism.check("points.realism")
        for name, realism in self.realism_of.items():
            realism.check(f"points.realism_of[{name!r}]")
        check_cloud(image_sizes, self.num_points, self.sampler, self.crop_lower, self.crop_upper, self.voxel_size)

    def casts_rays(self, cameras: Sequence[Any]) -> bool:
        """Whether the cloud is made by rays of the cameras with these configs.

        Raises:
            ConfigError: ``source="rays"`` is asked for and cannot be; the message names the setting that forbids it.
        """
        if self.source == "image":
            return False
        renderers = [getattr(camera, "renderer_cfg", None) for camera in cameras]
        others = {getattr(renderer, "renderer_type", None) for renderer in renderers} - {"newton_warp"}
        reasons = {
            f"the renderer {', '.join(map(str, others))} casts no rays of our own": bool(others),
            "points.features=rgb is read behind a camera's isp_cfg, which works on images": "rgb" in self.features
            and any(getattr(camera, "isp_cfg", None) is not None for camera in cameras),
        }
        found = [reason for reason, holds in reasons.items() if holds]
        if self.source == "rays" and found:
            raise ConfigError(f"points.source=rays: {found[0]}. Use points.source=image, or auto.")
        return not found

    def needs_classes(self) -> bool:
        """Whether the semantic classes of points are asked for."""
        return bool(self.remove) or not {"segmentation", "one_hot"}.isdisjoint(self.features)

    def data_types(self) -> tuple[str, ...]:
        """Return what the cameras must render: nothing with ``source="rays"``; ``auto`` counts as ``image``."""
        if self.source == "rays":
            return ()
        needed = ["depth"]
        if self.needs_classes():
            needed.append("semantic_segmentation")
        if "rgb" in self.features:
            needed.append("rgb")
        return tuple(needed)
