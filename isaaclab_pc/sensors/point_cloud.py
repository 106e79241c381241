# SPDX-License-Identifier: BSD-3-Clause
"""The point-cloud sensor: reads an Isaac Lab scene's depth cameras and returns one cloud per environment."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
import torch
import warp as wp
from isaaclab.sensors import SensorBase
from isaaclab.utils.math import quat_apply
from isaaclab.utils.warp import ProxyArray

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.keyed_random import keyed_hash
from isaaclab_pc.sensors.appended_points import BodyPoints, BodyPointsCfg, GivenPointsCfg
from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.depth_to_cloud import Cloud, DepthToCloud
from isaaclab_pc.sensors.features import at_pixels, camera_of, estimate_normals
from isaaclab_pc.sensors.realism import DepthRealism
from isaaclab_pc.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab.sensors import Camera

    from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg

logger = logging.getLogger(__name__)

_DEPTH_TYPES = ("depth", "distance_to_image_plane")
_SAMPLING, _EPISODE, _PIXELS = range(3)


class PointCloudData:
    """The sensor's buffers; each is overwritten by the next frame."""

    def __init__(self, points: torch.Tensor, count: torch.Tensor, mask: torch.Tensor, pixels: torch.Tensor) -> None:
        """Wrap the buffers as Isaac Lab's other sensors do: read them as ``.torch`` or ``.warp``."""
        self._points, self._count = ProxyArray(wp.from_torch(points)), ProxyArray(wp.from_torch(count))
        self._mask, self._pixels = ProxyArray(wp.from_torch(mask)), ProxyArray(wp.from_torch(pixels))

    @property
    def points(self) -> ProxyArray:
        """x, y, z [m] and features of each point, shape (N, K + A, F), of ``cfg.dtype``; the last A are appended."""
        return self._points

    @property
    def count(self) -> ProxyArray:
        """Seen points that are distinct pixels, shape (N,), int32; the seen points after them repeat them."""
        return self._count

    @property
    def mask(self) -> ProxyArray:
        """True at distinct seen points and at appended ones, shape (N, K + A), bool."""
        return self._mask

    @property
    def pixels(self) -> ProxyArray:
        """Pixel of each seen point, shape (N, K), int32: row * W + column, after those of the cameras before it."""
        return self._pixels


class PointCloud(SensorBase):
    """Depth cameras of a scene, fused into one cloud of a fixed size per environment.

    Lazy like the cameras it reads: nothing is rendered or computed until :attr:`data` is read.

    Draws are keyed by (seed, environment, episode, frame of the episode), so an environment's cloud never depends on
    what happens in the others.
    """

    cfg: PointCloudCfg

    def __str__(self) -> str:
        """Describe the sensor."""
        return (
            f"PointCloud: {self.cfg.num_points} points ({self.cfg.sampler}) of {', '.join(self.cfg.cameras)} "
            f"in the frame {self.cfg.frame}; channels {', '.join(self.channels)}"
        )

    @property
    def data(self) -> PointCloudData:
        """The clouds of the current frame."""
        self._update_outdated_buffers()
        return self._data

    @property
    def channels(self) -> dict[str, slice]:
        """Which channels of a point hold what: ``xyz`` and each feature."""
        widths = {"rgb": 3, "normals": 3, "segmentation": 1, "one_hot": len(self.cfg.classes), "camera": 1}
        result, start = {"xyz": slice(0, 3)}, 3
        for feature in self.cfg.features:
            result[feature] = slice(start, start + widths[feature])
            start += widths[feature]
        return result

    @property
    def nbytes(self) -> int:
        """Memory of the sensor's own buffers, without those of the cameras [bytes]."""
        return tensor_bytes(self, self._realism) + self._operator.nbytes

    def reset(self, env_ids: Sequence[int] | None = None, env_mask: wp.array | None = None) -> None:
        """Start a new episode in some environments: another key for their draws, nothing left of their history.

        Args:
            env_ids: Environments; None is all.
            env_mask: Mask of environments; goes before ``env_ids``.
        """
        super().reset(env_ids, env_mask)
        mask = wp.to_torch(self._resolve_indices_and_mask(env_ids, env_mask))
        self._episode += mask
        self._frame.masked_fill_(mask, 0)
        if self._realism is not None:
            self._realism.redraw(mask, self._key(_EPISODE, self._episode))

    def reseed(self, seed: int) -> None:
        """Restart the draws of all environments.

        Args:
            seed: Takes the place of ``cfg.seed``.
        """
        self.cfg.seed = seed
        self._episode.zero_()
        self._frame.zero_()

    # SensorBase's hooks.

    def _initialize_impl(self) -> None:
        super()._initialize_impl()
        simulation: Any = sim_utils.SimulationContext.instance()
        scene = simulation.get_scene_data_provider().get_interactive_scene()
        if scene is None:
            raise RuntimeError(
                "PointCloud finds its cameras by name in the scene, and none is registered: call "
                "sim.register_interactive_scene(scene) before sim.reset(). Isaac Lab's environments do this themselves."
            )
        self._scene = scene
        self._cameras = [self._find_camera(name) for name in self.cfg.cameras]
        sizes = [camera.image_shape for camera in self._cameras]
        self.cfg.check(sizes)
        for frame in {self.cfg.frame, self.cfg.crop_frame}:
            if frame in ("robot", "gripper") and self.cfg.robot not in scene.articulations:
                raise ConfigError(
                    f"points.frame={frame!r} needs the articulation {self.cfg.robot!r}, and the scene has "
                    f"{sorted(scene.articulations)}: set points.robot."
                )
        far = [_far(camera) for camera in self._cameras]
        self._operator = DepthToCloud(
            self._num_envs,
            sizes,
            self.cfg.num_points,
            sampler=self.cfg.sampler,
            crop_lower=self.cfg.crop_lower,
            crop_upper=self.cfg.crop_upper,
            voxel_size=self.cfg.voxel_size,
            far=far,
            dtype="float32" if self.cfg.features else self.cfg.dtype,
            device=self._device,
        )
        self._realism = None
        if self.cfg.realism is not None:
            self._realism = DepthRealism(self.cfg.realism, sizes, self._num_envs, self._device, far)
        self._allocate()

    def _allocate(self) -> None:
        n, k, device = self._num_envs, self.cfg.num_points, self._device
        appended = sum(cfg.num_points for cfg in self.cfg.append)
        width = max(part.stop for part in self.channels.values())
        self._env_ids = torch.arange(n, device=device)
        self._episode = torch.zeros(n, dtype=torch.long, device=device)
        self._frame = torch.zeros(n, dtype=torch.long, device=device)
        self._points = torch.zeros(n, k + appended, width, dtype=getattr(torch, self.cfg.dtype), device=device)
        self._count = torch.zeros(n, dtype=torch.int32, device=device)
        self._mask = torch.zeros(n, k + appended, dtype=torch.bool, device=device)
        self._pixels = torch.zeros(n, k, dtype=torch.int32, device=device)
        self._data = PointCloudData(self._points, self._count, self._mask, self._pixels)
        self._appended: list[BodyPoints | torch.Tensor] | None = None
        self.given = {
            cfg.name: torch.zeros(n, cfg.num_points, 3, device=device)
            for cfg in self.cfg.append
            if isinstance(cfg, GivenPointsCfg)
        }
        """Positions in the world [m] that the environment writes, by name, each (N, M, 3)."""
        # Per camera: the renderer's table of names, and what was made of it.
        self._names: list[dict] = [{} for _ in self._cameras]
        self._removed = torch.zeros(len(self._cameras), 0, dtype=torch.bool, device=device)
        self._class_of = self._removed.long()
        if self._realism is not None:
            self._realism.redraw(torch.ones(n, dtype=torch.bool, device=device), self._key(_EPISODE, self._episode))

    def _update_buffers_impl(self, env_mask: wp.array) -> None:
        mask = wp.to_torch(env_mask)
        key = self._key(_SAMPLING, self._episode, self._frame)
        cloud, labels, poses = self._sample(mask, key)
        values = [cloud.points]
        if self.cfg.features:
            seen = (cloud.count > 0)[:, None, None]
            values += [torch.where(seen, value, 0.0) for value in self._read_features(cloud, labels, *poses)]
        points, count, pixels = torch.cat(values, dim=-1).to(self._points.dtype), cloud.count, cloud.pixels
        if self._realism is not None:
            points, count, pixels = self._realism.delay(points, count, pixels, mask=mask)
        k = self.cfg.num_points
        rows = mask[:, None, None]
        self._points[:, :k] = torch.where(rows, points, self._points[:, :k])
        if self.cfg.append:
            self._points[:, k:] = torch.where(rows, self._appended_points(), self._points[:, k:])
        self._count.copy_(torch.where(mask, count, self._count))
        self._mask[:, :k] = torch.arange(k, device=self._device) < self._count[:, None]
        self._mask[:, k:] = True
        self._pixels.copy_(torch.where(mask[:, None], pixels, self._pixels))
        self._frame += mask

    # What one frame is made of.

    def _sample(
        self, mask: torch.Tensor, key: torch.Tensor
    ) -> tuple[Cloud, list[torch.Tensor], tuple[list[torch.Tensor], torch.Tensor]]:
        """Return the cloud, the semantic images and, for the features, depth and the matrices to the points' frame."""
        depths, poses = [], []
        for index, camera in enumerate(self._cameras):
            data: Any = camera.data
            depth = data.output[_depth_type(camera)].torch.squeeze(-1)
            pose = (data.intrinsic_matrices.torch, data.pos_w.torch, data.quat_w_ros.torch)
            if self._realism is not None:
                pixel_key = (self._key(_PIXELS, key) & 0x7FFFFFFF).int()
                depth = self._realism.corrupt(index, depth, pose[0], pixel_key, mask)
                pose = self._realism.calibrate(index, *pose)
            depths.append(depth)
            poses.append(pose)
        intrinsics, pos, quat = (torch.stack(part, dim=1) for part in zip(*poses, strict=True))
        crop_frame = self.cfg.crop_frame or self.cfg.frame
        frame_pos, frame_quat = output_pos, output_quat = self._pose(crop_frame)
        moves = crop_frame != self.cfg.frame
        if moves:
            output_pos, output_quat = self._pose(self.cfg.frame)
        labels = self._read_labels()
        cloud = self._operator(
            depths,
            intrinsics,
            pos,
            quat,
            (key & 0x7FFFFFFF).int(),
            frame_pos=frame_pos,
            frame_quat=frame_quat,
            output_pos=output_pos if moves else None,
            output_quat=output_quat if moves else None,
            labels=labels if self.cfg.remove else None,
            removed=self._removed if self.cfg.remove else None,
            mask=mask,
        )
        matrices = pos  # Not read without normals.
        if "normals" in self.cfg.features:
            matrices = ray_matrices(intrinsics, pos, quat, output_pos, output_quat)
        return cloud, labels, (depths, matrices)

    def _read_features(
        self, cloud: Cloud, labels: list[torch.Tensor], depths: list[torch.Tensor], matrices: torch.Tensor
    ) -> list[torch.Tensor]:
        values = []
        for feature in self.cfg.features:
            if feature == "rgb":
                images = [_colors(camera) for camera in self._cameras]
                values.append(at_pixels(images, cloud.pixels) / 255.0)
            elif feature == "normals":
                values.append(estimate_normals(depths, matrices, cloud.pixels))
            elif feature == "segmentation":
                values.append(at_pixels([image[..., None] for image in labels], cloud.pixels).float())
            elif feature == "one_hot":
                values.append(self._one_hot(cloud, labels))
            else:
                values.append(camera_of(self._operator.image_sizes, cloud.pixels)[..., None].float())
        return values

    def _one_hot(self, cloud: Cloud, labels: list[torch.Tensor]) -> torch.Tensor:
        ids = at_pixels([image[..., None] for image in labels], cloud.pixels)[..., 0].long()
        camera = camera_of(self._operator.image_sizes, cloud.pixels)
        index = self._class_of[camera, ids.clamp(0, self._class_of.shape[1] - 1)]
        return (index[..., None] == torch.arange(len(self.cfg.classes), device=self._device)).float()

    def _appended_points(self) -> torch.Tensor:
        if self._appended is None:
            self._appended = [
                BodyPoints(cfg, self._scene, self.cfg.seed) if isinstance(cfg, BodyPointsCfg) else self.given[cfg.name]
                for cfg in self.cfg.append
            ]
        world = torch.cat(
            [source.positions() if isinstance(source, BodyPoints) else source for source in self._appended], dim=1
        )
        pos, quat = self._pose(self.cfg.frame)
        points = world - pos[:, None]
        if quat is not None:
            conjugate = quat * torch.tensor([-1.0, -1.0, -1.0, 1.0], device=quat.device)
            points = quat_apply(conjugate[:, None].expand(-1, points.shape[1], -1), points)
        result = torch.zeros(*points.shape[:2], self._points.shape[2], device=self._device)
        result[..., :3] = points
        if "camera" in self.cfg.features:
            result[..., self.channels["camera"]] = -1.0
        return result.to(self._points.dtype)

    def _pose(self, frame: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return a frame's origin [m], (N, 3), and orientation, (N, 4), in the world; None is the world's axes."""
        if frame == "env":
            return self._scene.env_origins, None
        if frame == "camera":
            data: Any = self._cameras[0].data
            return data.pos_w.torch, data.quat_w_ros.torch
        robot = self._scene.articulations[self.cfg.robot]
        if frame == "robot":
            return robot.data.root_link_pos_w.torch, robot.data.root_link_quat_w.torch
        body = robot.body_names.index(self.cfg.gripper_body)
        quat = robot.data.body_link_quat_w.torch[:, body]
        offset = torch.tensor(self.cfg.gripper_offset, device=self._device).expand(self._num_envs, 3)
        return robot.data.body_link_pos_w.torch[:, body] + quat_apply(quat, offset), quat

    # What the cameras must offer.

    def _find_camera(self, name: str) -> Camera:
        cameras = {key: value for key, value in self._scene.sensors.items() if hasattr(value, "image_shape")}
        if name not in cameras:
            raise ConfigError(f"points.cameras names {name!r}, and the scene's cameras are {sorted(cameras)}.")
        camera = cameras[name]
        rendered = set(camera.cfg.data_types)
        for needed in self.cfg.data_types():
            accepted = {"depth": _DEPTH_TYPES, "rgb": ("rgb", "rgba")}.get(needed, (needed,))
            if not rendered & set(accepted):
                raise ConfigError(
                    f"The camera {name!r} renders {sorted(rendered)}, and the point cloud needs {needed!r}: "
                    f"add it to the camera's data_types."
                )
        if not getattr(camera.cfg, "update_latest_camera_pose", True):
            # A camera that moves and does not say so would put its points where it was at the start.
            logger.info("PointCloud sets update_latest_camera_pose of the camera %r.", name)
            camera.cfg.update_latest_camera_pose = True
        return camera

    def _read_labels(self) -> list[torch.Tensor]:
        """Return the semantic images and bring the tables of ids in step with the renderer's."""
        if "semantic_segmentation" not in self.cfg.data_types():
            return []
        images = []
        for index, camera in enumerate(self._cameras):
            data: Any = camera.data
            image = data.output["semantic_segmentation"].torch
            if image.shape[-1] != 1 or image.dtype != torch.int32:
                raise ConfigError(
                    f"The camera {self.cfg.cameras[index]!r} renders semantic_segmentation as colours: set "
                    "colorize_semantic_segmentation=False in its renderer_cfg."
                )
            images.append(image.squeeze(-1))
            names = data.info["semantic_segmentation"]["idToLabels"]
            if names != self._names[index]:
                self._names[index] = dict(names)
                self._build_tables()
        return images

    def _build_tables(self) -> None:
        classes = [
            {int(key): value.get("class", "") for key, value in names.items() if isinstance(value, dict)}
            for names in self._names
        ]
        size = max((max(table, default=0) for table in classes), default=0) + 1
        removed = torch.zeros(len(classes), size, dtype=torch.bool)
        class_of = torch.full((len(classes), size), -1)
        for camera, table in enumerate(classes):
            for index, name in table.items():
                removed[camera, index] = name in self.cfg.remove
                class_of[camera, index] = self.cfg.classes.index(name) if name in self.cfg.classes else -1
        self._removed, self._class_of = removed.to(self._device), class_of.to(self._device)

    def _key(self, stream: int, *key: torch.Tensor) -> torch.Tensor:
        return keyed_hash(self.cfg.seed, self._env_ids, stream, *key)


def _depth_type(camera: Camera) -> str:
    return next(name for name in _DEPTH_TYPES if name in camera.cfg.data_types)


def _colors(camera: Camera) -> torch.Tensor:
    output: Any = camera.data.output
    return output["rgb" if "rgb" in camera.cfg.data_types else "rgba"].torch[..., :3]


def _far(camera: Camera) -> float:
    """Return the depth at which the camera clips [m]: renderers that clip to it report it for a miss."""
    far = getattr(getattr(camera.cfg, "spawn", None), "clipping_range", (0.0, math.inf))[1]
    return far * (1.0 - 1e-6)
