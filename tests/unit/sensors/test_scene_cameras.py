# SPDX-License-Identifier: BSD-3-Clause
"""Which cameras are refused before a renderer starts, and which depths of the others count."""

import math
from dataclasses import MISSING
from types import SimpleNamespace
from typing import Any

import pytest
from isaaclab.renderers import RendererCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import FisheyeCameraCfg
from isaaclab.sim.spawners.sensors.sensors_cfg import OpenCvFisheyeDistortionCfg, OpenCvPinholeDistortionCfg
from isaaclab.utils import replace
from isaaclab_newton.renderers import NewtonWarpRendererCfg

from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.scene_cameras import check_camera, depth_limits

CALIBRATION: dict[str, Any] = {"fx": 60.0, "fy": 61.0, "cx": 30.0, "cy": 25.0, "image_size": (64, 48)}
PINHOLE_LENS = OpenCvPinholeDistortionCfg(**CALIBRATION, k1=-0.2)
FISHEYE_LENS = OpenCvFisheyeDistortionCfg(**CALIBRATION, k1=0.1)


def camera() -> Any:
    return depth_camera_cfg((0.9, 0.3, 0.5), (0.5, 0.0, 0.0), width=64, height=48, fov_deg=60.0)


def with_lens(lens: Any, **changes: Any) -> Any:
    cfg = camera()
    cfg.spawn.distortion = lens
    for name, value in changes.items():
        setattr(lens, name, value)
    return cfg


@pytest.mark.parametrize("lens", [PINHOLE_LENS, FISHEYE_LENS])
@pytest.mark.parametrize("spawned_as", ["pinhole", "fisheye"])
def test_a_lens_whose_rays_are_known_is_taken(lens: Any, spawned_as: str) -> None:
    cfg = with_lens(replace(lens))
    if spawned_as == "fisheye":
        cfg.spawn = FisheyeCameraCfg(distortion=cfg.spawn.distortion)
    check_camera(cfg, "env.scene.camera")
    check_camera(replace(cfg, renderer_cfg=NewtonWarpRendererCfg()), "env.scene.camera")


def test_cameras_without_a_spawner_or_of_another_kind_are_taken() -> None:
    check_camera(replace(camera(), spawn=None), "env.scene.camera")
    check_camera(SimpleNamespace(), "env.scene.camera")


@pytest.mark.parametrize("lens", [PINHOLE_LENS, FISHEYE_LENS])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("fx", value) for value in (0.0, -1.0, math.nan, math.inf, MISSING, None, "60")),
        ("fy", 0),
        ("cx", math.nan),
        ("k1", math.inf),
        *(("image_size", value) for value in ((64,), (64, 0), (64, 48, 3), MISSING)),
        *(("model", value) for value in ("opencv", "ftheta", MISSING)),
    ],
)
def test_a_lens_that_cannot_be_built_is_named(lens: Any, field: str, value: Any) -> None:
    cfg = with_lens(replace(lens), **{field: value})
    with pytest.raises(ConfigError, match=rf"^env\.scene\.camera\.spawn\.distortion(\.{field})?="):
        check_camera(cfg, "env.scene.camera")


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (with_lens(replace(FISHEYE_LENS), max_fov=0.0), r"distortion\.max_fov=0\.0"),
        (with_lens(replace(PINHOLE_LENS), model="opencvFisheye"), "distortion='opencvFisheye' of the type OpenCvPinh"),
        (with_lens("opencvPinhole"), "distortion='opencvPinhole' of the type str"),
        (replace(with_lens(replace(PINHOLE_LENS)), renderer_cfg=RendererCfg(renderer_type="isaac_rtx")), "isaac_rtx"),
        (replace(camera(), spawn=FisheyeCameraCfg()), "projection_type='fisheyePolynomial'"),
    ],
)
def test_a_lens_whose_rays_nobody_tells_is_refused(cfg: CameraCfg, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^env\.scene\.camera\.spawn\..*{message}"):
        check_camera(cfg, "env.scene.camera")


@pytest.mark.parametrize(
    ("part", "field", "values"),
    [
        ("spawn", "focal_length", (0.0, -1.0, math.nan)),
        ("spawn", "horizontal_aperture", (0.0, math.inf)),
        ("spawn", "clipping_range", ((1.0, 1.0), (-0.1, 1.0), (0.1, math.nan), (0.1,))),
        ("offset", "convention", ("ROS", "opencv")),
        ("offset", "rot", ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, math.nan, 1.0))),
        ("offset", "pos", ((0.0, math.inf, 0.0), (0.0, 1.0))),
    ],
)
def test_a_field_that_no_camera_can_have_is_named(part: str, field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        cfg = camera()
        setattr(getattr(cfg, part), field, value)
        with pytest.raises(ConfigError, match=rf"^scene\.front\.{part}\.{field}="):
            check_camera(cfg, "scene.front")


@pytest.mark.parametrize(
    ("cfg", "near", "far"),
    [
        (camera(), 0.01, 5.0),
        (replace(camera(), spawn=None), 0.0, math.inf),
        # Isaac Lab's ray caster, which may write this distance for a miss.
        (SimpleNamespace(spawn=SimpleNamespace(), max_distance=3.0), 0.0, 3.0),
    ],
)
def test_depths_count_between_the_clipping_distances(cfg: Any, near: float, far: float) -> None:
    lowest, miss = depth_limits(SimpleNamespace(cfg=cfg))  # pyright: ignore
    assert lowest == near
    assert miss == pytest.approx(far, rel=2e-6)
    assert miss < far or far == math.inf
