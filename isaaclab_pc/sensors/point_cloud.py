# SPDX-License-Identifier: BSD-3-Clause
"""The point-cloud sensor: reads an Isaac Lab scene's depth cameras and returns one cloud per environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
import torch
import warp as wp
from isaaclab.sensors import SensorBase
from isaaclab.utils.warp import ProxyArray

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.appended_points import BodyPoints
from isaaclab_pc.sensors.appended_points_cfg import BodyPointsCfg, GivenPointsCfg
from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud
from isaaclab_pc.sensors.features import at_pixels, camera_of, estimate_normals
from isaaclab_pc.sensors.realism.depth_realism import DepthRealism
from isaaclab_pc.sensors.scene_cameras import (
    SemanticLabels,
    Views,
    color_image,
    depth_image,
    depth_limits,
    find_camera,
    image_intrinsics,
    lens_of,
    pixel_centers,
)
from isaaclab_pc.tensors.keyed_random import keyed_hash
from isaaclab_pc.tensors.poses import from_frame, into_frame
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg

_SAMPLING_STREAM = 0
_EPISODE_STREAM = 1
_PIXEL_STREAM = 2

Pose = tuple[torch.Tensor, torch.Tensor | None]
"""Position [m], shape (N, 3), and orientation (x, y, z, w), shape (N, 4), in the world; None: the world's axes."""


@dataclass(frozen=True)
class PointCloudData:
    """The sensor's buffers, each overwritten by the next frame; read them as ``.torch`` or ``.warp``."""

    points: ProxyArray
    """x, y, z [m] and features of each point, shape (N, K + A, F), of ``cfg.dtype``; the last A are appended."""

    count: ProxyArray
    """Seen points that are distinct pixels, shape (N,), int32; the seen points after them repeat them."""

    mask: ProxyArray
    """True at distinct seen points and at appended ones, shape (N, K + A), bool."""

    pixels: ProxyArray
    """Pixel of each seen point, shape (N, K), int32: row * W + column, after those of the cameras before it."""


class PointCloud(SensorBase):
    """Depth cameras of a scene, fused into one cloud of a fixed size per environment.

    Lazy like the cameras it reads: nothing is rendered or computed until :attr:`data` is read. Draws are keyed by
    (seed, environment, episode, frame of the episode), so no environment's cloud depends on the others.
    """

    cfg: PointCloudCfg

    _depths: Mapping[str, torch.Tensor] | None = None
    """Depth images to use in the place of the cameras' own, while :meth:`points_of` runs."""

    @property
    def data(self) -> PointCloudData:
        """The clouds of the current frame."""
        self._update_outdated_buffers()
        return self._data

    def points_of(self, depths: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the buffer of :attr:`PointCloudData.points`, made of given depth unless the frame was made before.

        ``depths`` are checked distances to the image plane [m] by the name of each camera, (N, H, W), float32. A cloud
        of rays does not read them.
        """
        self._depths = depths
        try:
            return self.data.points.torch
        finally:
            self._depths = None

    @property
    def casts_rays(self) -> bool:
        """Whether the points are hits of rays: then the cameras' images are not read."""
        return self.cfg.source == "rays"

    @property
    def channels(self) -> dict[str, slice]:
        """Which channels of a point hold what: ``xyz`` and each feature."""
        widths = {"rgb": 3, "normals": 3, "segmentation": 1, "one_hot": len(self.cfg.classes), "camera": 1}
        channels = {"xyz": slice(0, 3)}
        start = 3
        for feature in self.cfg.features:
            channels[feature] = slice(start, start + widths[feature])
            start += widths[feature]
        return channels

    @property
    def age(self) -> torch.Tensor:
        """Frames by which each environment's cloud lags behind its cameras, shape (N,), int64."""
        return torch.zeros_like(self._frame) if self._realism is None else self._realism.age

    @property
    def nbytes(self) -> int:
        """Memory of the sensor's own buffers, without those of the cameras [bytes]."""
        return tensor_bytes(self, self._realism, self._labels) + self.operator.nbytes

    def reset(self, env_ids: Sequence[int] | None = None, env_mask: wp.array | None = None) -> None:
        """Start a new episode in some environments: their draws get another key, and their history is cleared."""
        super().reset(env_ids, env_mask)

        mask = wp.to_torch(self._resolve_indices_and_mask(env_ids, env_mask))
        self._episode += mask
        self._frame.masked_fill_(mask, 0)
        self._redraw(mask)

    def reseed(self, seed: int, episode: torch.Tensor | int = 0) -> None:
        """Restart the draws of all environments with a seed in the place of ``cfg.seed``.

        ``episode`` numbers the running episodes, another key of the draws: shape (N,), int64, or one for all.
        """
        self.cfg.seed = seed
        self._episode[:] = episode
        self._frame.zero_()
        self._redraw(torch.ones_like(self._frame, dtype=torch.bool))

    def _redraw(self, mask: torch.Tensor) -> None:
        if self._realism is not None:
            self._realism.redraw(mask, self._draw_key(_EPISODE_STREAM, self._episode))

    def frame_pose(self, frame: str) -> Pose:
        """Return where a frame that ``cfg.frame`` and ``cfg.crop_frame`` may name is in the world now."""
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
        return from_frame(robot.data.body_link_pos_w.torch[:, body], quat, self._gripper_offset), quat

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
        found = [scene.sensors[name].cfg for name in self.cfg.cameras if name in scene.sensors]
        self.cfg.source = "rays" if self.cfg.casts_rays(found) else "image"
        needed = self.cfg.data_types()
        self._named_cameras = {name: find_camera(scene, name, needed) for name in self.cfg.cameras}
        self._cameras = list(self._named_cameras.values())

        image_sizes = [camera.image_shape for camera in self._cameras]
        self.cfg.check(image_sizes)
        for frame in {self.cfg.frame, self.cfg.crop_frame}:
            if frame in ("robot", "gripper") and self.cfg.robot not in scene.articulations:
                raise ConfigError(
                    f"points.frame={frame!r} needs the articulation {self.cfg.robot!r}, and the scene has "
                    f"{sorted(scene.articulations)}: set points.robot."
                )

        near, self._far = zip(*map(depth_limits, self._cameras), strict=True)
        self._realism = None
        if self.cfg.realism:
            own = self.cfg.realism_of
            of_cameras = {index: own[name] for index, name in enumerate(self.cfg.cameras) if name in own}
            sizes = image_sizes, self._num_envs
            self._realism = DepthRealism(self.cfg.realism, *sizes, self._device, self._far, of_cameras)
        if self.casts_rays:
            # Late: another renderer needs no ray tracer of Newton.
            from isaaclab_pc.sensors.cloud_rays import CloudRays

            self.operator: Any = CloudRays(self.cfg, self._cameras, self._num_envs, self._device, self._realism)
        else:
            self.operator = DepthToCloud(
                self._num_envs,
                image_sizes,
                self.cfg.num_points,
                sampler=self.cfg.sampler,
                crop_lower=self.cfg.crop_lower,
                crop_upper=self.cfg.crop_upper,
                voxel_size=self.cfg.voxel_size,
                near=near,
                far=self._far,
                # With features, points are rounded to the storage type once all their channels are together.
                dtype="float32" if self.cfg.features else self.cfg.dtype,
                device=self._device,
            )
            """Operator: a :class:`CloudRays`, or on images a :class:`DepthToCloud` or a recorder of its calls."""

        # Rays of a lens are its own.
        self._has_lens = not self.casts_rays and any(lens_of(camera) is not None for camera in self._cameras)
        self._centers: list[torch.Tensor] | None = None

        self._labels = None
        if self.cfg.needs_classes():
            self._labels = SemanticLabels(len(self._cameras), self.cfg.remove, self.cfg.classes, self._device)
            if self.casts_rays:
                self._labels.learn([self.operator.class_names] * len(self._cameras))

        self._allocate_buffers()
        self._redraw(torch.ones_like(self._frame, dtype=torch.bool))

    def _allocate_buffers(self) -> None:
        n = self._num_envs
        seen = self.cfg.num_points
        appended = sum(cfg.num_points for cfg in self.cfg.append)
        width = max(part.stop for part in self.channels.values())
        dtype = getattr(torch, self.cfg.dtype)
        device = self._device

        self._env_ids = torch.arange(n, device=device)
        self._episode = torch.zeros(n, dtype=torch.long, device=device)
        self._frame = torch.zeros(n, dtype=torch.long, device=device)
        self._gripper_offset = torch.tensor(self.cfg.gripper_offset, device=device).expand(n, 3)

        self._points = torch.zeros(n, seen + appended, width, dtype=dtype, device=device)
        self._count = torch.zeros(n, dtype=torch.int32, device=device)
        self._mask = torch.zeros(n, seen + appended, dtype=torch.bool, device=device)
        self._mask[:, seen:] = True
        self._pixels = torch.zeros(n, seen, dtype=torch.int32, device=device)
        self._ranks = torch.arange(seen, device=device)
        buffers = (self._points, self._count, self._mask, self._pixels)
        self._data = PointCloudData(*(ProxyArray(wp.from_torch(buffer)) for buffer in buffers))

        self._appended: list[BodyPoints | torch.Tensor] | None = None
        self.given = {
            cfg.name: torch.zeros(n, cfg.num_points, 3, device=device)
            for cfg in self.cfg.append
            if isinstance(cfg, GivenPointsCfg)
        }
        """Positions in the world [m] that the environment writes, by name, each (N, M, 3)."""

    def _update_buffers_impl(self, env_mask: wp.array) -> None:
        mask = wp.to_torch(env_mask)
        frame_key = self._draw_key(_SAMPLING_STREAM, self._episode, self._frame)

        key = _as_int32(frame_key)
        error_key = key if self._realism is None else _as_int32(self._draw_key(_PIXEL_STREAM, frame_key))

        views = self._read_cameras(mask, error_key)
        output_pose = self._believed_pose(self.cfg.frame, views)
        cloud = self._sample(views, output_pose, key, error_key, mask)

        values = [cloud.points]
        if self.cfg.features:
            unseen = (cloud.count == 0)[:, None, None]
            values += [value.masked_fill(unseen, 0.0) for value in self._read_features(cloud, views, output_pose)]
        points = (torch.cat(values, dim=-1) if len(values) > 1 else values[0]).to(self._points.dtype)
        latest = (points, cloud.count, cloud.pixels)
        points, count, pixels = latest if self._realism is None else self._realism.delay(*latest, mask=mask)

        # Environments that are not out of date keep what they have.
        k = self.cfg.num_points
        rows = mask[:, None, None]
        torch.where(rows, points, self._points[:, :k], out=self._points[:, :k])
        if self.cfg.append:
            self._points[:, k:] = torch.where(rows, self._appended_points(output_pose), self._points[:, k:])
        torch.where(mask, count, self._count, out=self._count)
        torch.lt(self._ranks, self._count[:, None], out=self._mask[:, :k])
        torch.where(mask[:, None], pixels, self._pixels, out=self._pixels)
        self._frame += mask

    def _read_cameras(self, mask: torch.Tensor, error_key: torch.Tensor) -> Views:
        depths = []
        calibrations = []
        labels = [] if self._labels is None or self.casts_rays else self._labels.read(self._named_cameras)
        # Where there are labels, those of what is read take their places.
        ids: list[Any] = labels or [None] * len(self._cameras)
        for index, (name, camera) in enumerate(zip(self.cfg.cameras, self._cameras, strict=True)):
            data: Any = camera.data
            calibration = (image_intrinsics(camera), data.pos_w.torch, data.quat_w_ros.torch)
            if not self.casts_rays:
                depth = depth_image(camera) if self._depths is None else self._depths[name]
                if self._realism is not None:
                    depth, ids[index] = self._realism.corrupt(index, depth, calibration[0], error_key, mask, ids[index])
                depths.append(depth)
            if self._realism is not None:
                calibration = self._realism.calibrate(index, *calibration)
            calibrations.append(calibration)

        if self._has_lens and self._centers is None:
            # Now, since a camera that was initialized after this sensor had no rays then.
            self._centers = [pixel_centers(camera) for camera in self._cameras]

        intrinsics, pos, quat = (_stacked(part) for part in zip(*calibrations, strict=True))
        return Views(depths, intrinsics, pos, quat, labels)

    def _believed_pose(self, frame: str, views: Views) -> Pose:
        """Return where a frame is for who has the calibration that the views come with."""
        # A camera's own frame: an error of where it is must not move what it sees relative to itself.
        return (views.pos[:, 0], views.quat[:, 0]) if frame == "camera" else self.frame_pose(frame)

    def _sample(
        self, views: Views, output_pose: Pose, key: torch.Tensor, error_key: torch.Tensor, mask: torch.Tensor
    ) -> Cloud:
        crop_frame = self.cfg.crop_frame or self.cfg.frame
        moves = crop_frame != self.cfg.frame
        crop_pos, crop_quat = self._believed_pose(crop_frame, views) if moves else output_pose
        output_pos, output_quat = output_pose if moves else (None, None)
        poses = dict(frame_pos=crop_pos, frame_quat=crop_quat, output_pos=output_pos, output_quat=output_quat)
        if self.casts_rays:
            return self.operator(views, key, error_key, mask=mask, **poses)

        known = self._labels if self.cfg.remove else None
        labels, removed = (None, None) if known is None else (views.labels, known.removed)
        images = views.depths, views.intrinsics, views.pos, views.quat
        return self.operator(*images, key, labels=labels, removed=removed, mask=mask, centers=self._centers, **poses)

    def _read_features(self, cloud: Cloud, views: Views, output_pose: Pose) -> list[torch.Tensor]:
        """Return each feature of the seen points, in the order of ``cfg.features``, each (N, K, its channels)."""
        values = []
        image_sizes = [camera.image_shape for camera in self._cameras]
        for feature in self.cfg.features:
            if feature == "rgb" and self.casts_rays:
                values.append(self.operator.colors_at(cloud.pixels))
            elif feature == "rgb":
                images = [color_image(camera) for camera in self._cameras]
                values.append(at_pixels(images, cloud.pixels) / 255.0)
            elif feature == "normals" and cloud.normals is not None:
                _, quat = output_pose
                values.append(cloud.normals if quat is None else into_frame(None, quat, cloud.normals))
            elif feature == "normals":
                matrices = ray_matrices(views.intrinsics, views.pos, views.quat, *output_pose)
                values.append(estimate_normals(views.depths, matrices, cloud.pixels, self._far, self._centers))
            elif feature == "segmentation":
                values.append(self._ids(cloud, views)[..., None].float())
            elif feature == "one_hot":
                assert self._labels is not None
                ids = self._ids(cloud, views)
                values.append(self._labels.one_hot(ids, camera_of(image_sizes, cloud.pixels)))
            else:
                values.append(camera_of(image_sizes, cloud.pixels)[..., None].float())
        return values

    def _ids(self, cloud: Cloud, views: Views) -> torch.Tensor:
        """Return the semantic id of each seen point, shape (N, K), int32."""
        if cloud.labels is not None:
            return cloud.labels
        return at_pixels([image[..., None] for image in views.labels], cloud.pixels)[..., 0]

    def _appended_points(self, output_pose: Pose) -> torch.Tensor:
        """Return the appended points with their features, shape (N, A, F)."""
        if self._appended is None:
            self._appended = [
                BodyPoints(cfg, self._scene, self.cfg.seed) if isinstance(cfg, BodyPointsCfg) else self.given[cfg.name]
                for cfg in self.cfg.append
            ]
        in_world = torch.cat(
            [source.positions() if isinstance(source, BodyPoints) else source for source in self._appended], dim=1
        )

        pos, quat = output_pose
        points = in_world - pos[:, None] if quat is None else into_frame(pos, quat, in_world)
        result = torch.zeros(*points.shape[:2], self._points.shape[2], device=self._device)
        result[..., :3] = points
        if "camera" in self.cfg.features:
            result[..., self.channels["camera"]] = -1.0
        return result.to(self._points.dtype)

    def _draw_key(self, stream: int, *key: torch.Tensor) -> torch.Tensor:
        return keyed_hash(self.cfg.seed, self._env_ids, stream, *key)


def _stacked(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(parts), dim=1) if len(parts) > 1 else parts[0][:, None]


def _as_int32(key: torch.Tensor) -> torch.Tensor:
    """Return the lower 31 bits of int64 keys."""
    return (key & 0x7FFFFFFF).int()
