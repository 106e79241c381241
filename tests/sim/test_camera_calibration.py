# SPDX-License-Identifier: BSD-3-Clause
"""Clouds of cameras of every calibration lie on the surfaces that stand there: one scene, many cameras."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp
from isaaclab.app import launch_simulation
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg
from isaaclab.scene import InteractiveScene, InteractiveSceneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import PinholeCameraCfg, SimulationCfg, SimulationContext
from isaaclab.sim.spawners.sensors.sensors_cfg import OpenCvFisheyeDistortionCfg, OpenCvPinholeDistortionCfg
from isaaclab.utils import configclass, replace
from isaaclab.utils.math import convert_camera_frame_orientation_convention, quat_apply
from isaaclab_newton.physics import NewtonCfg

from isaaclab_pc.assets.primitives import cube_cfg, table_cfg
from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.presets import prepare_for_device
from isaaclab_pc.sensors import PointCloudCfg
from isaaclab_pc.sensors.scene_cameras import image_intrinsics, lens_coefficients, pixel_centers

pytestmark = pytest.mark.sim

WIDTH, HEIGHT = 64, 48
FOCAL = 55.43
CUBE_EDGE = 0.1
TOLERANCE = 1e-4  # [m], for float32
FAR, NEAR = 0.75, 0.63  # [m], in the middle of what the cameras see
PINHOLE: dict[str, Any] = {"fx": FOCAL, "fy": FOCAL, "cx": WIDTH / 2, "cy": HEIGHT / 2, "image_size": (WIDTH, HEIGHT)}
OFF_CENTRE: dict[str, Any] = {**PINHOLE, "fy": 1.3 * FOCAL, "cx": 25.0, "cy": 30.0}
BENT: dict[str, Any] = {"k1": -0.1, "k2": 0.05, "k3": 0.01, "k4": 0.05, "k5": 0.02, "k6": 0.01, "p1": 0.01, "p2": -0.02}
PRISM: dict[str, Any] = {"s1": 0.01, "s2": -0.01, "s3": 0.02, "s4": 0.01}
TEN_TIMES: dict[str, Any] = {
    "fx": 10 * FOCAL,
    "fy": 10 * FOCAL,
    "cx": 250.0,
    "cy": 300.0,
    "image_size": (10 * WIDTH, 10 * HEIGHT),
}
DISTORTED = {
    "off_centre": OpenCvPinholeDistortionCfg(**OFF_CENTRE),
    "radial": OpenCvPinholeDistortionCfg(**PINHOLE, k1=-0.2),
    "bent": OpenCvPinholeDistortionCfg(**OFF_CENTRE, **BENT, **PRISM),
    "rescaled": OpenCvPinholeDistortionCfg(**TEN_TIMES, k1=-0.1, p1=0.01),
    "muted": OpenCvPinholeDistortionCfg(**OFF_CENTRE, k1=-0.2, apply_lens_distortion=False),
    "folded": OpenCvPinholeDistortionCfg(**PINHOLE, k1=-0.6),
    "fisheye": OpenCvFisheyeDistortionCfg(**OFF_CENTRE, k1=0.05, k2=-0.02, k3=0.01, k4=-0.005),
    "wide": OpenCvFisheyeDistortionCfg(**{**PINHOLE, "fx": 18.0, "fy": 18.0}, max_fov=3.6),
    "narrow": OpenCvFisheyeDistortionCfg(**PINHOLE, max_fov=0.7),
}


def camera(name: str, depth_clipping: str = "none", **spawn: Any) -> CameraCfg:
    cfg = depth_camera_cfg((0.9, 0.3, 0.5), (0.5, 0.0, 0.0), width=WIDTH, height=HEIGHT, fov_deg=60.0)
    cfg.spawn = replace(cfg.spawn, **spawn)
    return replace(cfg, prim_path="{ENV_REGEX_NS}/" + name, depth_clipping_behavior=depth_clipping)


def turned(convention: Any) -> CameraCfg:
    cfg = camera(convention)
    rot = convert_camera_frame_orientation_convention(torch.tensor([cfg.offset.rot]), origin="ros", target=convention)
    cfg.offset = replace(cfg.offset, rot=tuple(rot[0].tolist()), convention=convention)
    return cfg


def of_matrix() -> CameraCfg:
    matrix = [FOCAL, 0.0, 30.0, 0.0, 1.2 * FOCAL, 20.0, 0.0, 0.0, 1.0]
    return replace(camera("of_matrix"), spawn=PinholeCameraCfg.from_intrinsic_matrix(matrix, WIDTH, HEIGHT))


CAMERAS = {
    "plain": camera("plain"),
    "tall_aperture": camera("tall_aperture", vertical_aperture=20.0),
    "offsets": camera("offsets", horizontal_aperture_offset=3.0, vertical_aperture_offset=2.0),
    "of_matrix": of_matrix(),
    "world": turned("world"),
    "opengl": turned("opengl"),
    "clipped_to_max": camera("clipped_to_max", "max", clipping_range=(0.01, FAR)),
    "clipped_to_zero": camera("clipped_to_zero", "zero", clipping_range=(0.01, FAR)),
    "clipped": camera("clipped", clipping_range=(0.01, FAR)),
    "clipped_near": camera("clipped_near", clipping_range=(NEAR, 5.0)),
    "wide_to_max": camera("wide_to_max", "max", distortion=DISTORTED["wide"], clipping_range=(0.01, FAR)),
    **{name: camera(name, distortion=lens) for name, lens in DISTORTED.items()},
}
FUSED = ("radial", "plain", "fisheye")


def cloud_cfg(name: str, **changes: Any) -> PointCloudCfg:
    box: dict[str, Any] = {"crop_lower": (0.2, -0.4, -0.2), "crop_upper": (0.8, 0.4, 0.4), "crop_frame": "env"}
    given = {"cameras": (name,), "num_points": WIDTH * HEIGHT, "dtype": "float32", **box, **changes}
    return PointCloudCfg(prim_path="{ENV_REGEX_NS}/Cloud" + name, **given)


@configclass
class SceneCfg(InteractiveSceneCfg):
    num_envs: int = 2
    env_spacing: float = 2.0
    # Before the cameras: it has to wait for their rays.
    fused: PointCloudCfg = cloud_cfg("fused", cameras=FUSED, frame="camera", features=("normals", "camera"))
    table: AssetBaseCfg = table_cfg()
    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))


@pytest.fixture(scope="module")
def scene() -> Iterator[Any]:
    cfg = SceneCfg()
    for name, camera_cfg in CAMERAS.items():
        setattr(cfg, name, camera_cfg)
        setattr(cfg, f"{name}_cloud", cloud_cfg(name))
    whole: Any = SimpleNamespace(sim=SimulationCfg(dt=1 / 120, device="cpu", physics=NewtonCfg()), scene=cfg)
    with launch_simulation(whole, {"device": "cpu", "headless": True}):
        prepare_for_device(whole)
        sim = SimulationContext(whole.sim)
        scene = InteractiveScene(cfg)
        sim.register_interactive_scene(scene)
        sim.reset()
        scene.update(dt=whole.sim.dt)
        yield scene
        sim.clear_instance()


def off_the_surfaces(scene: Any, points: torch.Tensor) -> torch.Tensor:
    """Distance [m] of points in the environment frame, (N, K, 3), from the table's top or the cube, (N, K)."""
    center = scene["cube"].data.root_pos_w.torch - scene.env_origins
    outside = (points - center[:, None]).abs() - CUBE_EDGE / 2
    distance = outside.clamp(min=0).norm(dim=-1) + outside.amax(dim=-1).clamp(max=0)
    return torch.minimum(distance.abs(), points[..., 2].abs())


@pytest.mark.parametrize("name", CAMERAS)
def test_points_lie_on_the_surfaces(scene: Any, name: str) -> None:
    data = scene[f"{name}_cloud"].data
    mask = data.mask.torch
    assert mask.sum(1).min() > 100
    assert off_the_surfaces(scene, data.points.torch)[mask].max() < TOLERANCE

    on_cube = (data.points.torch[..., 2] > 0.01) & mask
    assert on_cube.sum(1).min() > 10


def test_clipping_takes_away_what_is_beyond(scene: Any) -> None:
    def distances(name: str) -> torch.Tensor:
        data = scene[f"{name}_cloud"].data
        depth = scene[name].data.output["depth"].torch.flatten(1)
        return depth.gather(1, data.pixels.torch.long())[data.mask.torch]

    assert distances("plain").min() < NEAR < FAR < distances("plain").max()
    for name in ("clipped", "clipped_to_max", "clipped_to_zero"):
        assert distances(name).max() < FAR
        assert torch.equal(scene[f"{name}_cloud"].data.count.torch, scene["clipped_cloud"].data.count.torch)
    assert distances("clipped_near").min() > NEAR


def test_cameras_with_different_lenses_are_one_cloud(scene: Any) -> None:
    data = scene["fused"].data
    points, mask = data.points.torch, data.mask.torch
    first = scene[FUSED[0]].data
    quat = first.quat_w_ros.torch[:, None].expand(-1, points.shape[1], -1)
    in_env = quat_apply(quat, points[..., :3]) + (first.pos_w.torch - scene.env_origins)[:, None]

    assert off_the_surfaces(scene, in_env)[mask].max() < TOLERANCE
    assert all(((points[..., 6] == index) & mask).sum(1).min() > 100 for index in range(len(FUSED)))

    upward = quat_apply(quat, points[..., 3:6])[..., 2]
    on_table = mask & (in_env[..., 2].abs() < TOLERANCE)
    # Where a neighbour pixel lies on the cube, the estimate leans.
    for index in range(len(FUSED)):
        assert (upward[on_table & (points[..., 6] == index)] > 1 - 1e-5).float().mean() > 0.95


def test_a_lens_is_told_by_what_a_pinhole_would_see(scene: Any) -> None:
    """OpenCV's own formula takes what a pinhole sees back to the pixels."""
    lens = DISTORTED["rescaled"]
    matrix = image_intrinsics(scene["rescaled"])[0].double()
    torch.testing.assert_close(matrix[:2, 2], torch.tensor([25.0, 30.0]).double())

    x, y = ((pixel_centers(scene["rescaled"]).double() - matrix[:2, 2]) / matrix.diagonal()[:2]).unbind(-1)
    square = x * x + y * y
    radial = 1.0 + lens.k1 * square
    bent = torch.stack([x * radial + 2 * lens.p1 * x * y, y * radial + lens.p1 * (square + 2 * y * y)], dim=-1)
    pixels = bent * matrix.diagonal()[:2] + matrix[:2, 2]
    expected = torch.stack(torch.meshgrid(torch.arange(WIDTH), torch.arange(HEIGHT), indexing="xy"), dim=-1) + 0.5
    torch.testing.assert_close(pixels, expected.double(), atol=2e-3, rtol=0)

    coefficients = dict.fromkeys({**BENT, **PRISM}, 0.0)
    assert lens_coefficients(lens) == coefficients | {"k1": -0.1, "p1": 0.01}
    assert lens_coefficients(DISTORTED["muted"]) == coefficients
    torch.testing.assert_close(pixel_centers(scene["plain"]), expected)


def test_a_lens_without_any_ray_is_refused(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rays = scene["narrow"]._render_data.camera_rays
    none = wp.zeros(rays.shape, dtype=rays.dtype, device="cpu")
    monkeypatch.setattr(scene["narrow"], "_render_data", SimpleNamespace(camera_rays=none))
    with pytest.raises(ConfigError, match="distortion"):
        pixel_centers(scene["narrow"])
