# SPDX-License-Identifier: BSD-3-Clause
"""Depth cameras of a scene, as the point-cloud sensor reads them."""

from __future__ import annotations

import logging
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import warp as wp

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab.scene import InteractiveScene
    from isaaclab.sensors import Camera

logger = logging.getLogger(__name__)

_DEPTH_TYPES = ("depth", "distance_to_image_plane")
_RGB_TYPES = ("rgb", "rgba")
_CONVENTIONS = ("ros", "world", "opengl")


class Views(NamedTuple):
    """Images of one frame of N environments by C cameras, with the errors of a real camera."""

    depths: list[torch.Tensor]
    """Distance to the image plane per camera [m], each (N, H, W); empty where rays are cast instead."""

    intrinsics: torch.Tensor
    """Pinhole matrices [px], shape (N, C, 3, 3)."""

    pos: torch.Tensor
    """Positions of the cameras in the world [m], shape (N, C, 3)."""

    quat: torch.Tensor
    """Orientations of the cameras in the world, optical convention, (x, y, z, w), shape (N, C, 4)."""

    labels: list[torch.Tensor]
    """Semantic image per camera, each (N, H, W), int32; empty where nothing needs them."""


def check_camera(cfg: Any, name: str) -> None:
    """Raise ConfigError for a ``CameraCfg`` with images that cannot be unprojected; ``name`` is for the message."""
    from isaaclab.sensors import CameraCfg

    if not isinstance(cfg, CameraCfg):
        return
    offset = cfg.offset
    if offset.convention not in _CONVENTIONS:
        known = closest(str(offset.convention), _CONVENTIONS)
        raise ConfigError(f"{name}.offset.convention={offset.convention!r} is unknown: {known}")
    _check_numbers(offset, f"{name}.offset", ("pos",), count=3)
    _check_numbers(offset, f"{name}.offset", ("rot",), count=4)
    if not any(offset.rot):
        raise ConfigError(f"{name}.offset.rot={offset.rot} is no rotation: give a quaternion (x, y, z, w) of length 1.")

    spawn = cfg.spawn
    if spawn is None:
        return
    _check_numbers(spawn, f"{name}.spawn", ("focal_length", "horizontal_aperture"), above=0.0)
    clipping = spawn.clipping_range
    if len(clipping) != 2 or not 0.0 <= clipping[0] < clipping[1]:
        raise ConfigError(
            f"{name}.spawn.clipping_range={clipping} m: expected two distances that rise, from 0 or more."
        )
    if spawn.distortion is not None:
        _check_lens(spawn.distortion, f"{name}.spawn.distortion", cfg.renderer_cfg)
    elif spawn.projection_type != "pinhole":
        raise ConfigError(
            f"{name}.spawn.projection_type={spawn.projection_type!r}: no renderer tells the rays of that lens, and "
            "Newton's renders a pinhole in its place. Give spawn.distortion=OpenCvFisheyeDistortionCfg(...) instead."
        )


def _check_lens(lens: Any, name: str, renderer_cfg: Any) -> None:
    """Refuse a lens that Isaac Lab cannot build, or with rays that its renderer does not tell."""
    from isaaclab.sim.spawners.sensors.sensors_cfg import OpenCvFisheyeDistortionCfg, OpenCvPinholeDistortionCfg

    kinds = {"opencvPinhole": OpenCvPinholeDistortionCfg, "opencvFisheye": OpenCvFisheyeDistortionCfg}
    if not any(isinstance(lens, kind) and lens.model == model for model, kind in kinds.items()):
        known = " or ".join(f"{kind.__name__}(...) with model={model}" for model, kind in kinds.items())
        model = getattr(lens, "model", lens)
        raise ConfigError(f"{name}={model!r} of the type {type(lens).__name__}: expected {known}.")

    _check_numbers(lens, name, ("fx", "fy", *(["max_fov"] if hasattr(lens, "max_fov") else [])), above=0.0)
    _check_numbers(lens, name, ("image_size",), count=2, above=0.0)
    _check_numbers(lens, name, ("cx", "cy", *lens_coefficients(lens)))
    renderer = getattr(renderer_cfg, "renderer_type", "newton_warp")
    if renderer != "newton_warp":
        raise ConfigError(
            f"{name}: the renderer {renderer} does not tell the rays of a lens, and points would be off. Use "
            "renderer_cfg=LazyWarpRendererCfg() or NewtonWarpRendererCfg(), or a camera without distortion."
        )


def _check_numbers(owner: Any, name: str, fields: Sequence[str], *, count: int = 1, above: float = -math.inf) -> None:
    """Refuse fields that do not hold so many numbers, finite and above a limit."""
    for field in fields:
        value = getattr(owner, field)
        values = np.ravel(np.asarray(value, dtype=object)).tolist()
        if len(values) != count or not all(isinstance(x, numbers.Real) and above < float(x) < math.inf for x in values):
            expected = "a finite number" if count == 1 else f"{count} finite numbers"
            limit = f" above {above:g}" if above > -math.inf else ""
            raise ConfigError(f"{name}.{field}={value}: expected {expected}{limit}.")


def find_camera(scene: InteractiveScene, name: str, data_types: Sequence[str]) -> Camera:
    """Look up a camera of the scene that renders ``data_types``; from now on it updates its pose in every frame.

    Raises:
        ConfigError: There is no such camera, or it does not render what the cloud needs.
    """
    cameras: dict[str, Any] = {key: value for key, value in scene.sensors.items() if hasattr(value, "image_shape")}
    if name not in cameras:
        raise ConfigError(f"points.cameras names {name!r}, and the scene's cameras are {sorted(cameras)}.")

    camera = cameras[name]
    check_camera(camera.cfg, f"scene.{name}")
    _warn_of_apertures(camera.cfg, f"scene.{name}")
    rendered = set(camera.cfg.data_types)
    for needed in data_types:
        accepted = {"depth": _DEPTH_TYPES, "rgb": _RGB_TYPES}.get(needed, (needed,))
        if not rendered & set(accepted):
            raise ConfigError(
                f"The camera {name!r} renders {sorted(rendered)}, and the point cloud needs {needed!r}: "
                f"add it to the camera's data_types."
            )

    if not getattr(camera.cfg, "update_latest_camera_pose", True):
        # Without this, the points of a camera that moves would stay where the camera was at the start.
        logger.info("PointCloud sets update_latest_camera_pose of the camera %r.", name)
        camera.cfg.update_latest_camera_pose = True
    return camera


def depth_image(camera: Camera) -> torch.Tensor:
    """Return a camera's distance to the image plane [m], shape (N, H, W), float32."""
    output: Any = camera.data.output
    rendered_as = next(name for name in _DEPTH_TYPES if name in camera.cfg.data_types)
    return output[rendered_as].torch.squeeze(-1)


def color_image(camera: Camera) -> torch.Tensor:
    """Return a camera's red, green and blue from 0 to 255, shape (N, H, W, 3)."""
    output: Any = camera.data.output
    rendered_as = next(name for name in _RGB_TYPES if name in camera.cfg.data_types)
    return output[rendered_as].torch[..., :3]


def renderer_bytes(camera: Camera) -> int:
    """Return what Newton's renderer holds for a camera beside the images [bytes]; 0 for another renderer.

    The tree of all shapes is not counted: the cameras share it, and Warp does not tell its size.
    """
    data: Any = getattr(camera, "_render_data", None)
    if not hasattr(data, "camera_rays"):
        return 0
    return tensor_bytes(data.camera_rays, data.camera_transforms, data.outputs.shape_index_image)


def depth_limits(camera: Camera) -> tuple[float, float]:
    """Return the depth that a pixel exceeds and the one from which it is a miss [m]."""
    # Newton's renderer shows what is before the near distance, and some write the far one for a miss. A camera that
    # casts rays at meshes has no clipping range, but max_distance.
    no_clip = (0.0, getattr(camera.cfg, "max_distance", math.inf))
    near, far = getattr(getattr(camera.cfg, "spawn", None), "clipping_range", no_clip)
    return near, far * (1.0 - 1e-6)


def lens_of(camera: Camera) -> Any:
    """Return the configuration of a camera's lens, None for a pinhole."""
    return getattr(getattr(camera.cfg, "spawn", None), "distortion", None)


def lens_coefficients(lens: Any) -> dict[str, float]:
    """Return how a lens bends the rays: OpenCV's coefficients by their names, 0 where they are not applied."""
    names = [name for name in lens.__dataclass_fields__ if re.fullmatch(r"[kps]\d", name)]
    return {name: getattr(lens, name) if lens.apply_lens_distortion else 0.0 for name in names}


def image_intrinsics(camera: Camera) -> torch.Tensor:
    """Return the pinhole matrices of a camera's images [px], shape (N, 3, 3); of a lens, without its distortion."""
    data: Any = camera.data
    matrices = data.intrinsic_matrices.torch
    lens = lens_of(camera)
    if lens is None:
        return matrices
    # Isaac Lab's are those of the images that the lens was calibrated with.
    (height, width), (calibrated_width, calibrated_height) = camera.image_shape, lens.image_size
    scale = (width / calibrated_width, height / calibrated_height, 1.0)
    return matrices * constant_tensor(scale, matrices.device)[:, None]


def pixel_centers(camera: Camera) -> torch.Tensor:
    """Return where a pinhole with :func:`image_intrinsics` would see each pixel [px], shape (H, W, 2), float32.

    The rays of a lens are the renderer's own, so points lie on what it rendered. It is 0 where the renderer casts no
    ray or one that never meets the image plane.

    Raises:
        ConfigError: The lens has no ray at all.
    """
    lens = lens_of(camera)
    matrix = image_intrinsics(camera)[0].double()
    if lens is None:
        height, width = camera.image_shape
        column, row = (torch.arange(size, device=matrix.device) + 0.5 for size in (width, height))
        return torch.stack(torch.meshgrid(column, row, indexing="xy"), dim=-1).contiguous()

    render_data: Any = camera._render_data
    # Origin and direction of each ray; x right, y up, z backward.
    x, y, z = wp.to_torch(render_data.camera_rays)[0, :, :, 1].double().unbind(-1)
    slopes = torch.stack([x, -y], dim=-1) / -z[..., None]
    seen = z < 0.0
    where = f"{camera.cfg.prim_path}: spawn.distortion"
    if not seen.any():
        raise ConfigError(f"{where}={lens} gives no pixel a ray: check its numbers.")
    unseen = int((~seen).sum())
    if unseen > 0:
        logger.warning("%s gives %d of %d pixels no ray, and so no point.", where, unseen, seen.numel())
    centers = slopes * matrix.diagonal()[:2] + matrix[:2, 2]
    return torch.where(seen[..., None], centers, 0.0).float()


def _warn_of_apertures(cfg: Any, name: str) -> None:
    """Say what Isaac Lab makes of apertures that are not those of square pixels in the middle: it ignores them."""
    spawn: Any = getattr(cfg, "spawn", None)
    if not hasattr(spawn, "distortion") or spawn.distortion is not None:
        return
    square = spawn.horizontal_aperture * cfg.height / cfg.width
    offsets = (spawn.horizontal_aperture_offset, spawn.vertical_aperture_offset)
    if any(offsets) or not math.isclose(spawn.vertical_aperture or square, square, rel_tol=1e-4):
        logger.warning(
            "%s.spawn: Isaac Lab ignores vertical_aperture and the aperture's offsets, as of from_intrinsic_matrix: "
            "the image has fy = fx and the principal point in its middle. OpenCvPinholeDistortionCfg(fx, fy, cx, cy, "
            "image_size) as spawn.distortion has them as they are.",
            name,
        )


class SemanticLabels:
    """The classes of the cameras' semantic ids.

    Each renderer numbers the classes that it meets, camera by camera, and may add numbers while it runs.
    """

    def __init__(
        self, num_cameras: int, removed_classes: Sequence[str], point_classes: Sequence[str], device: str
    ) -> None:
        """Start without any known id; ``removed_classes`` give no points, ``point_classes`` are told apart."""
        self._removed_classes = removed_classes
        self._point_classes = point_classes
        self._device = device
        self._names: list[dict] = [{} for _ in range(num_cameras)]

        self.removed = torch.zeros(num_cameras, 0, dtype=torch.bool, device=device)
        """True at the ids of pixels that give no points, shape (C, number of ids)."""

        self.class_index = torch.zeros(num_cameras, 0, dtype=torch.long, device=device)
        """Position of each id's class among the points' classes, -1 for other ones, shape (C, number of ids)."""

    def read(self, cameras: Mapping[str, Camera]) -> list[torch.Tensor]:
        """Return the semantic images (N, H, W), int32, of cameras by their names, and learn the ids that were added.

        Raises:
            ConfigError: A camera renders colours in the place of ids.
        """
        images = []
        names = []
        for name, camera in cameras.items():
            data: Any = camera.data
            image = data.output["semantic_segmentation"].torch
            if image.shape[-1] != 1 or image.dtype != torch.int32:
                raise ConfigError(
                    f"The camera {name!r} renders semantic_segmentation as colours: set "
                    "colorize_semantic_segmentation=False in its renderer_cfg."
                )
            images.append(image.squeeze(-1))
            names.append(data.info["semantic_segmentation"]["idToLabels"])
        self.learn(names)
        return images

    def learn(self, names: Sequence[Mapping]) -> None:
        """Take Isaac Lab's ``idToLabels`` of each camera."""
        if list(names) != self._names:
            self._names = [dict(of_camera) for of_camera in names]
            self._build_tables()

    def one_hot(self, ids: torch.Tensor, camera: torch.Tensor) -> torch.Tensor:
        """Return 1 at the point class of ids (N, K) that cameras (N, K) saw, shape (N, K, classes), float32."""
        ids = ids.long()
        known = ids.clamp(0, self.class_index.shape[1] - 1)
        index = torch.where(known == ids, self.class_index[camera, known], -1)
        return (index[..., None] == torch.arange(len(self._point_classes), device=self._device)).float()

    def _build_tables(self) -> None:
        classes = [
            {int(key): value.get("class", "") for key, value in names.items() if isinstance(value, dict)}
            for names in self._names
        ]
        num_ids = max((max(table, default=0) for table in classes), default=0) + 1

        removed = torch.zeros(len(classes), num_ids, dtype=torch.bool)
        class_index = torch.full((len(classes), num_ids), -1)
        for camera, table in enumerate(classes):
            for index, name in table.items():
                removed[camera, index] = name in self._removed_classes
                if name in self._point_classes:
                    class_index[camera, index] = self._point_classes.index(name)

        self.removed = removed.to(self._device)
        self.class_index = class_index.to(self._device)
