# SPDX-License-Identifier: BSD-3-Clause
"""Clouds by rays: only the pixels that a cloud keeps are ever rendered. Loads a simulator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from isaaclab.sim import SimulationContext
from isaaclab_newton.renderers.segmentation import NewtonSegmentationMapper

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.camera_matrices import frame_change, ray_matrices
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.kernels import newton_ray_kernels, ray_kernels, ray_scene_kernels
from isaaclab_pc.sensors.kernels.pixel_kernels import Matrix, lanes_on
from isaaclab_pc.sensors.kernels.ray_place_kernels import PARTS
from isaaclab_pc.sensors.point_sampler import CANDIDATES, PointSampler, moved
from isaaclab_pc.sensors.realism.kernels import Camera as ErrorCamera
from isaaclab_pc.sensors.realism.kernels import Parameters
from isaaclab_pc.sensors.scene_cameras import Views, depth_limits, image_intrinsics, lens_of, pixel_centers
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes
from isaaclab_pc.tensors.warp_stream import current_stream

if TYPE_CHECKING:
    from isaaclab.sensors import Camera

    from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg
    from isaaclab_pc.sensors.realism.depth_realism import DepthRealism

RAYS_PER_POINT = 4
"""Rays that are cast for each point at most, where few of them meet what is wanted."""

RAYS_PER_ERRANT_POINT = 64
"""The same where errors of the camera decide which of many pixels are valid."""


class CloudRays:
    """Cast the rays of clouds in the scene of Newton's Warp renderer.

    The points are those that :class:`DepthToCloud` would choose among the pixels of the rendered images: with the
    sampler ``random`` each has the same chance, none comes twice, and all are taken where there are at most K. The
    other samplers choose from a random part of the pixels, several times K. Only where :data:`RAYS_PER_POINT` rays a
    point do not find K of them, some may be left out: ``count`` says how many were found.
    """

    class_names: dict[Any, Any]
    """Isaac Lab's ``idToLabels``: the class of each semantic id; empty where nothing needs them."""

    def __init__(
        self,
        cfg: PointCloudCfg,
        cameras: Sequence[Camera],
        num_envs: int,
        device: str,
        realism: DepthRealism | None = None,
    ) -> None:
        """Read the scene's shapes, and allocate the buffers, for initialized cameras of one Newton Warp renderer.

        Raises:
            ConfigError: The scene holds particles, or its images have too many pixels.
            RuntimeError: Newton's ray tracer is not the one that this was written for.
        """
        self.device = torch.empty(0, device=device).device
        self._cameras = cameras
        self._renderer: Any = cameras[0]._renderer
        self._sensor = self._renderer.newton_sensor
        self._num_envs = num_envs
        self._realism = realism if realism is not None and realism.corrupts else None
        self._with_normal = "normals" in cfg.features
        newton_ray_kernels.check_ray_tracer(self._sensor)
        if self._sensor.model.particle_count > 0:
            raise ConfigError(
                "points.source=rays: the scene holds particles, which no ray meets. Use points.source=image."
            )

        limit = torch.finfo(getattr(torch, cfg.dtype)).max / 4
        self._crop = np.clip(np.array([cfg.crop_lower, cfg.crop_upper]), -limit, limit)

        shape_ids, self.class_names = self._read_classes() if cfg.needs_classes() else (np.zeros(0, np.uint32), {})
        classes = {int(key): names.get("class") for key, names in self.class_names.items() if isinstance(names, dict)}
        removed = np.isin(np.arange(max(classes, default=-1) + 1), [i for i in classes if classes[i] in cfg.remove])
        self._removed = wp.array(removed, dtype=wp.bool, device=device)
        self._shape_ids = wp.array(shape_ids, dtype=wp.uint32, device=device)

        self._leaf_starts, self._leaf_ends, self._leaves, most_leaves = self._list_leaves(shape_ids, removed)
        pixels = sum(height * width for height, width in (camera.image_shape for camera in cameras))
        if pixels * most_leaves >= 2**31:
            raise ConfigError(f"points.source=rays: {pixels} pixels are too many to number. Use points.source=image.")

        self._sampler = None
        if cfg.sampler != "random":
            sizes = [camera.image_shape for camera in cameras]
            settings = cfg.sampler, cfg.num_points, sizes, self._crop, cfg.voxel_size
            self._sampler = PointSampler(*settings, self.device)
        self._allocate(cfg.num_points * (CANDIDATES if self._sampler else 1), most_leaves * len(cameras))
        self._scene: Any = None

    @property
    def nbytes(self) -> int:
        """Memory of the buffers [bytes]."""
        return tensor_bytes(self, self._cloud, self._sampler)

    def __call__(
        self,
        views: Views,
        keys: torch.Tensor,
        error_keys: torch.Tensor,
        *,
        frame_pos: torch.Tensor,
        frame_quat: torch.Tensor | None,
        output_pos: torch.Tensor | None,
        output_quat: torch.Tensor | None,
        mask: torch.Tensor,
    ) -> Cloud:
        """Cast one cloud for each environment of ``mask``; the others keep their last one.

        Keys and poses are those of :meth:`DepthToCloud.__call__`, ``error_keys`` (N,), int32, those of the cameras'
        errors, ``views`` the calibration that is believed. The clouds are float32, in buffers that the next call
        overwrites.
        """
        if self._scene is None:
            # Now, since a camera that was initialized after this sensor had no rays then.
            self._scene = self._make_scene()
            with_errors = self._realism is not None
            with_normal = self._with_normal or with_errors
            cast = newton_ray_kernels.make_cast(self._sensor, with_normal)
            self._kernel = ray_kernels.make_cast_clouds(cast, with_normal, with_errors, self.device.type == "cuda")

        to_output = self._no_frame
        if output_pos is not None or output_quat is not None:
            to_output = frame_change(frame_pos, frame_quat, output_pos, output_quat, like=frame_pos)
        matrices = ray_matrices(views.intrinsics, views.pos, views.quat, frame_pos, frame_quat)
        self._scene.matrices = wp.from_torch(matrices, dtype=Matrix)
        self._launch(
            [
                wp.from_torch(keys),
                wp.from_torch(error_keys),
                wp.from_torch(mask),
                wp.from_torch(frame_pos.contiguous(), dtype=wp.vec3f),
                wp.from_torch(self._no_quat if frame_quat is None else frame_quat.contiguous(), dtype=wp.quatf),
                wp.from_torch(self._no_frame if self._sampler else to_output, dtype=Matrix),
                self._scene,
                *self._outputs,
            ]
        )
        if self._sampler is None:
            return self._cloud

        cloud = self._sampler(self._cloud, keys)
        return replace(cloud, points=moved(cloud, to_output))

    def colors_at(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the colours that the cameras would render at pixels of the last clouds, in [0, 1], (N, K, 3), float32.

        ``pixels`` (N, K), int32, are numbered through all cameras. Newton renders an image of one pixel for each.
        """
        n, k = pixels.shape
        rays = wp.from_torch(self._forward.expand(k, 1, 1, 2, 3).contiguous(), dtype=wp.vec3f)
        colors = torch.empty(n, k, 4, dtype=torch.uint8, device=self.device)
        packed = wp.from_torch(colors.view(torch.int32)[..., None], dtype=wp.uint32)

        with wp.ScopedStream(current_stream(self.device)):
            poses = wp.empty((k, n), dtype=wp.transformf, device=str(self.device))  # pyright: ignore[reportArgumentType]
            arguments = [wp.from_torch(pixels), self._scene, poses]
            wp.launch(ray_scene_kernels.aim_at_pixels, dim=(n, k), inputs=arguments, device=str(self.device))
            state = self._renderer.backend.state_0
            self._sensor.update(state, poses, rays, color_image=packed, render_config=self._color_config)
        return colors[..., :3] / 255.0

    def _launch(self, arguments: list[Any]) -> None:
        device = str(self.device)
        lanes, _ = lanes_on(device)

        def run(first: int, end: int) -> None:
            wp.launch(
                self._kernel,
                dim=(end - first) * lanes,
                inputs=[first, *arguments],
                device=device,
                stream=current_stream(self.device),
                block_dim=lanes,
            )

        # Warp runs a kernel on one thread of a CPU.
        threads = min(torch.get_num_threads(), self._num_envs) if self.device.type == "cpu" else 1
        if threads == 1 or not self._is_compiled:
            # Compiles, and a tenth faster with -O3 than with Warp's -O2 for CPUs.
            level = wp.config.optimization_level
            try:
                wp.config.optimization_level = 3
                run(0, self._num_envs)
            finally:
                wp.config.optimization_level = level
            self._is_compiled = True
            return
        bounds = [self._num_envs * thread // threads for thread in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, bounds[:-1], bounds[1:]))

    def _allocate(self, num_points: int, most_rectangles: int) -> None:
        n, device = self._num_envs, self.device
        points = torch.zeros(n, num_points, 3, device=device)
        pixels = torch.zeros(n, num_points, dtype=torch.int32, device=device)
        count = torch.zeros(n, dtype=torch.int32, device=device)
        labels = torch.zeros(n if self.class_names else 0, num_points, dtype=torch.int32, device=device)
        normals = torch.zeros(n if self._with_normal else 0, num_points, 3, device=device)
        self._cloud = Cloud(
            points, count, pixels, labels if self.class_names else None, normals if self._with_normal else None
        )
        # Packed once, in the order of the kernel's last arguments.
        self._outputs = [
            wp.zeros((n, max(most_rectangles, 1)), dtype=wp.vec4i, device=str(device)),
            wp.zeros(
                (n, max(most_rectangles, 1) if self._realism else 0, PARTS**2), dtype=wp.vec3f, device=str(device)
            ),
            wp.zeros((n, max(most_rectangles, 1)), dtype=wp.int32, device=str(device)),
            wp.from_torch(points, dtype=wp.vec3f),
            wp.from_torch(pixels),
            wp.from_torch(labels),
            wp.from_torch(normals, dtype=wp.vec3f),
            wp.from_torch(count),
        ]
        self._no_frame = torch.zeros(0, 3, 4, device=device)
        self._no_quat = torch.zeros(0, 4, device=device)
        self._forward = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]], device=device)
        self._is_compiled = False

    def _read_classes(self) -> tuple[np.ndarray, dict[Any, Any]]:
        """Return the semantic id of each shape, as Isaac Lab's renderer numbers them, and the classes of the ids."""
        renderer = self._renderer
        simulation: Any = SimulationContext.instance()
        plan = simulation.get_clone_plan()
        mapper = NewtonSegmentationMapper(self._sensor.model, renderer._stage, renderer.cfg, plan)
        mapper.build_mapping("semantic_segmentation", False)
        mapping = mapper.get_mapping("semantic_segmentation", False)
        return mapping.shape_to_id.numpy(), mapping.info["idToLabels"]

    def _list_leaves(self, shape_ids: np.ndarray, removed: np.ndarray) -> tuple[wp.array, wp.array, wp.array, int]:
        """Return where each environment's leaves start, where those that give points end, the leaves, and the most."""
        model = self._sensor.model
        shapes = model.bvh_shape_enabled.numpy()[: model.bvh_shape_count_enabled].astype(np.int64)
        worlds = model.shape_world.numpy()[shapes]
        wanted = ~removed[shape_ids[shapes]] if len(shape_ids) > 0 else np.ones(len(shapes), dtype=bool)

        leaves = np.argsort(worlds, kind="stable")
        # Those that all worlds share are of world -1, the first.
        ends = np.searchsorted(worlds[leaves], np.arange(self._num_envs + 1))
        of_envs = [np.concatenate([leaves[a:b], leaves[: ends[0]]]) for a, b in itertools.pairwise(ends)]
        of_envs = [of_env[np.argsort(~wanted[of_env], kind="stable")] for of_env in of_envs]

        starts = np.cumsum([0, *map(len, of_envs)])
        stops = starts[:-1] + [wanted[of_env].sum() for of_env in of_envs]
        starts, stops, leaves = (
            wp.array(numbers, dtype=wp.int32, device=str(self.device))
            for numbers in (starts, stops, np.concatenate(of_envs))
        )
        return starts, stops, leaves, max(map(len, of_envs))

    def _make_scene(self) -> Any:
        cameras = self._make_cameras()
        # Tiles of images of one pixel would be empty but for one thread.
        order = self._sensor.RenderOrder.PIXEL_PRIORITY
        reach = max(camera.reach for camera in cameras)
        self._color_config = replace(self._sensor.default_render_config, render_order=order, max_distance=reach)

        scene: Any = ray_scene_kernels.Scene()
        scene.cameras = wp.array(cameras, dtype=ray_scene_kernels.RayCamera, device=str(self.device))
        scene.shapes = newton_ray_kernels.shapes_of(self._sensor)
        scene.leaf_starts = self._leaf_starts
        scene.leaf_ends = self._leaf_ends
        scene.leaves = self._leaves
        scene.shape_ids = self._shape_ids
        scene.removed = self._removed
        scene.crop_lower = wp.vec3f(*self._crop[0])
        scene.crop_upper = wp.vec3f(*self._crop[1])
        scene.most_rays = RAYS_PER_POINT * self._cloud.pixels.shape[1]
        if self._realism is not None:
            scene.most_rays = RAYS_PER_ERRANT_POINT * self._cloud.pixels.shape[1]
            scene.errors = wp.array(self._realism.cameras, dtype=ErrorCamera, device=str(self.device))
            scene.parameters = wp.from_torch(self._realism.parameters, dtype=Parameters)
            focal_length = min(float(image_intrinsics(camera)[:, 0, 0].min()) for camera in self._cameras)
            cfgs = self._realism.cfgs
            moved = max(cfg.position_jitter for cfg in cfgs)
            turned = max(
                cfg.rotation_jitter + cfg.focal_jitter + cfg.principal_point_jitter / focal_length for cfg in cfgs
            )
            # Twice, since each is drawn along up to three axes.
            scene.misplaced = wp.vec2f(2.0 * moved, 2.0 * turned)  # pyright: ignore[reportArgumentType]
            scene.flies = self._realism.flies
        return scene

    def _make_cameras(self) -> list[Any]:
        self._kept = []
        result = []
        first_pixel = 0
        for camera in self._cameras:
            render_data: Any = camera._render_data
            data: Any = camera.data
            entry: Any = ray_scene_kernels.RayCamera()
            entry.height, entry.width = camera.image_shape
            entry.poses = render_data.camera_transforms
            entry.intrinsics = data.intrinsic_matrices.warp
            if lens_of(camera) is not None:
                self._kept.append(image_intrinsics(camera).contiguous())
                entry.intrinsics = wp.from_torch(self._kept[-1], dtype=wp.mat33f)
                entry.rays = render_data.camera_rays
                self._kept.append(pixel_centers(camera))
                entry.centers = wp.from_torch(self._kept[-1], dtype=wp.vec2f)
            entry.first_pixel = first_pixel
            entry.near, entry.far = depth_limits(camera)
            entry.reach = render_data.far_clip or self._renderer.cfg.max_distance
            result.append(entry)
            first_pixel += entry.height * entry.width
        return result
