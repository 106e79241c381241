# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's Newton Warp renderer on all threads of a CPU. Loads a simulator.

Warp runs a kernel on one thread of a CPU, and the depth camera's kernel takes most of a step there. It needs no more of
the other environments than their place in a few arrays, so parts of the environments are rendered side by side.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
import warp as wp
from isaaclab_newton.renderers.newton_warp_renderer import NewtonWarpRenderer, RenderData
from newton.sensors import SensorTiledCamera

if TYPE_CHECKING:
    from isaaclab.renderers.camera_render_spec import CameraRenderSpec
    from newton import Model, State

_COLOURS = ("color_image", "hdr_color_image", "albedo_image")
"""Images that are rendered by one thread: lights and textures belong to the whole sensor."""


class ThreadedWarpRenderer(NewtonWarpRenderer):
    """Renders as its base class does, pixel by pixel the same; for a camera without data types, nothing."""

    def initialize(self) -> None:
        """Acquire the scene, as in the base class, and share it among threads where it is on a CPU."""
        super().initialize()
        sensor = self.newton_sensor
        assert sensor is not None
        threads = min(torch.get_num_threads(), sensor.model.world_count)
        if not wp.get_device(sensor.model.device).is_cpu or threads == 1:
            return

        self.newton_sensor = ThreadedTiledCamera(sensor.model, threads, sensor.default_render_config)
        if self.cfg.create_default_light:
            self.newton_sensor.utils.create_default_light(enable_shadows=self.cfg.enable_shadows)

    def create_render_data(self, spec: CameraRenderSpec) -> RenderData:
        """Create a camera's buffers, as in the base class; without images, a pinhole needs no field of rays either."""
        render_data: Any = super().create_render_data(spec)
        if not spec.cfg.data_types and render_data._distortion is None:
            device = render_data.newton_sensor.model.device
            render_data.camera_rays = wp.empty((1, 0, 0, 2), dtype=cast(Any, wp.vec3f), device=device)
        return render_data

    def update_camera_intrinsics(self, render_data: RenderData, intrinsics: wp.array, parameters: wp.array) -> None:
        """Renew the field of rays, as in the base class, where there is one."""
        if render_data.camera_rays is None or render_data.camera_rays.size > 0:
            super().update_camera_intrinsics(render_data, intrinsics, parameters)

    def _launch_render(self, render_data: RenderData) -> None:
        """Render, unless no image is wanted: then the base class has brought the shapes' tree up to date for rays."""
        if any(image is not None for image in vars(render_data.outputs).values()):
            super()._launch_render(render_data)


class ThreadedTiledCamera(SensorTiledCamera):
    """Newton's tiled camera on several threads of a CPU. Colours are rendered by one thread.

    Example:
        .. code-block:: python

            sensor = ThreadedTiledCamera(model, threads=2)
            sensor.update(state, camera_transforms, rays, depth_image=depth)
    """

    def __init__(
        self, model: Model, threads: int, default_render_config: SensorTiledCamera.RenderConfig | None = None
    ) -> None:
        """Divide the worlds of a model of the CPU among so many threads, at most as many as it has worlds."""
        super().__init__(model, default_render_config=default_render_config)
        bounds = [model.world_count * thread // threads for thread in range(threads + 1)]
        self._parts = [_Part(model, first, end) for first, end in itertools.pairwise(bounds)]
        self._kernels: set[tuple[Any, ...]] = set()

    def update(
        self,
        state: State,
        camera_transforms: Any = None,
        camera_rays: Any = None,
        *,
        clear_data: Any = None,
        render_config: Any = None,
        kernel_block_dim: int = 64,
        **images: Any,
    ) -> None:
        """Render images (worlds, cameras, H, W) of all worlds, as the base class does; there is no block on a CPU.

        Transforms are poses of the cameras in the world, (cameras, worlds); rays are in the camera's frame, (cameras,
        H, W, 2).
        """
        wanted = {name: image for name, image in images.items() if image is not None}
        settings = {"clear_data": clear_data, "render_config": render_config or self.default_render_config}
        if any(name in wanted for name in _COLOURS):
            super().update(
                state, camera_transforms, camera_rays, **wanted, **settings, kernel_block_dim=kernel_block_dim
            )
            return

        def render(part: _Part) -> None:
            part.update(self.model, state, camera_transforms, camera_rays, wanted, settings)

        # Two threads that meet a new kernel would both compile it.
        kernel = (*sorted(wanted), hash(clear_data), hash(settings["render_config"]))
        if kernel not in self._kernels:
            self._kernels.add(kernel)
            with compiled_with_all_optimizations():
                for part in self._parts:
                    render(part)
            return

        with ThreadPoolExecutor(len(self._parts)) as threads:
            list(threads.map(render, self._parts))


class _Part:
    """Some of the worlds, as a model and a sensor of their own over the same arrays."""

    def __init__(self, model: Model, first: int, end: int) -> None:
        self._worlds = slice(first, end)
        self._model = copy.copy(model)
        self._model.world_count = end - first
        self._sensor = SensorTiledCamera(self._model, load_textures=False)

    def update(
        self,
        model: Model,
        state: State,
        transforms: Any,
        rays: Any,
        images: dict[str, Any],
        settings: dict[str, Any],
    ) -> None:
        vars(self._model).update(vars(model))
        self._model.world_count = self._worlds.stop - self._worlds.start
        # The last root is that of the shapes which all worlds share; those before it are the worlds' own.
        self._model.bvh_shapes_group_roots = _from(model.bvh_shapes_group_roots, self._worlds)
        self._model.bvh_particles_group_roots = _from(model.bvh_particles_group_roots, self._worlds)
        own_images = {name: image[self._worlds] for name, image in images.items()}
        own_transforms = None if transforms is None else transforms[:, self._worlds]
        self._sensor.update(state, own_transforms, rays, **own_images, **settings)


@contextmanager
def compiled_with_all_optimizations() -> Iterator[None]:
    """Compile what is compiled in this block with -O3: it renders a tenth faster than with Warp's -O2 for CPUs."""
    before = wp.config.optimization_level
    wp.config.optimization_level = 3
    try:
        yield
    finally:
        wp.config.optimization_level = before


def _from(roots: Any, worlds: slice) -> Any:
    return None if roots is None else roots[worlds.start :]
