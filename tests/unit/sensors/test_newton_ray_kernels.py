# SPDX-License-Identifier: BSD-3-Clause
"""The contract with Newton's ray tracer: a release that changed it is named, before a ray is cast."""

from types import SimpleNamespace
from typing import Any

import pytest
from newton.sensors import SensorTiledCamera

from isaaclab_pc.sensors.kernels import newton_ray_kernels


def tiled_camera(**changes: Any) -> Any:
    """A stand-in of Newton's tiled camera, with all that is read of it."""
    model = SimpleNamespace(**dict.fromkeys(newton_ray_kernels._MODEL_FIELDS))
    context = SimpleNamespace(
        **dict.fromkeys(newton_ray_kernels._CONTEXT_FIELDS), state=SimpleNamespace(num_gaussians=0)
    )
    context.state.has_particles = False
    return SimpleNamespace(
        model=model,
        default_render_config=SensorTiledCamera.RenderConfig(),
        **{"_SensorTiledCamera__render_context": context, **changes},
    )


def test_the_ray_tracer_is_the_one_that_the_kernels_were_written_for() -> None:
    newton_ray_kernels.check_ray_tracer(tiled_camera())


def test_a_camera_of_another_make_is_named() -> None:
    camera = tiled_camera(**{"_SensorTiledCamera__render_context": None})
    with pytest.raises(RuntimeError, match=r"RenderContext.*points\.source=image"):
        newton_ray_kernels.check_ray_tracer(camera)


def test_what_is_missing_is_named() -> None:
    camera = tiled_camera()
    del camera.model.bvh_shapes_group_roots
    with pytest.raises(RuntimeError, match=r"bvh_shapes_group_roots.*points\.source=image"):
        newton_ray_kernels.check_ray_tracer(camera)


def test_changed_arguments_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton_ray_kernels, "_HIT_ARGUMENTS", [*newton_ray_kernels._HIT_ARGUMENTS, "new_argument"])
    with pytest.raises(RuntimeError, match=r"new_argument.*points\.source=image"):
        newton_ray_kernels.check_ray_tracer(tiled_camera())
