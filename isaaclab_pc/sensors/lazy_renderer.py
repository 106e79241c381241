# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's Newton Warp renderer, without work for cameras that only rays look through. Loads a simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import warp as wp
from isaaclab_newton.renderers.newton_warp_renderer import NewtonWarpRenderer, RenderData

if TYPE_CHECKING:
    from isaaclab.renderers.camera_render_spec import CameraRenderSpec


class LazyWarpRenderer(NewtonWarpRenderer):
    """Renders as its base class does; for a camera without data types, nothing."""

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
