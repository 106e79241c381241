# SPDX-License-Identifier: BSD-3-Clause
"""The sensor in a plain Isaac Lab environment: two cameras, one of them on the wrist, on real physics."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp
from isaaclab.app import launch_simulation
from isaaclab.utils.math import quat_apply, quat_apply_inverse

from isaaclab_pc.physics import apply_physics
from isaaclab_pc.physics.presets import prepare_for_device
from isaaclab_pc.sensors.scene_cameras import depth_image
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend
from isaaclab_pc.workers.session import warn_of_empty_clouds
from tests.sim.cloud_scene import (
    CUBE_EDGE,
    MAX_INCIDENCE,
    NUM_ENVS,
    RIGHT,
    SHADOW_BASELINE,
    EnvCfg,
    PlainEnv,
)

pytestmark = pytest.mark.sim

TOLERANCE = 1e-4  # [m], for float32


@pytest.fixture(scope="module")
def env(backend: Backend) -> Iterator[PlainEnv]:
    cfg: Any = EnvCfg()
    cfg.sim.device = "cpu"
    apply_physics(cfg, PhysicsSettings(backend=backend))
    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        prepare_for_device(cfg)
        env = PlainEnv(cfg)
        yield env
        env.close()


@pytest.fixture
def moved(env: PlainEnv) -> PlainEnv:
    """The environment after some motion, so that no pose is the one at the start."""
    env.reset(seed=4)
    generator = torch.Generator().manual_seed(2)
    for _ in range(5):
        env.step(torch.rand(NUM_ENVS, 7, generator=generator) * 2 - 1)
    return env


def cloud(env: PlainEnv, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    data = env.scene[name].data
    return data.points.torch.clone(), data.mask.torch.clone()


def off_table_and_cube(env: PlainEnv, points: torch.Tensor) -> torch.Tensor:
    """Distance [m] of points in the environment frame, (N, K, 3), from the table's top or the cube, (N, K)."""
    body = env.scene["cube"].data
    pos, quat = body.root_pos_w.torch - env.scene.env_origins, body.root_quat_w.torch
    local = quat_apply_inverse(quat[:, None].expand(-1, points.shape[1], -1), points - pos[:, None])
    outside = (local.abs() - CUBE_EDGE / 2).clamp(min=0).norm(dim=-1)
    inside = (CUBE_EDGE / 2 - local.abs()).amin(dim=-1).clamp(min=0)
    return torch.minimum(points[..., 2].abs(), torch.maximum(outside, inside))


def test_fixed_and_wrist_camera_are_one_cloud_on_the_surfaces(moved: PlainEnv) -> None:
    points, mask = cloud(moved, "points")
    camera = points[..., moved.scene["points"].channels["camera"]].squeeze(-1)
    assert off_table_and_cube(moved, points[..., :3])[mask].max() < TOLERANCE
    for index in (0, 1):
        assert ((camera == index) & mask).sum(1).min() > 10, "both cameras see the table"


def test_the_wrist_cameras_pose_is_that_of_the_frame(moved: PlainEnv) -> None:
    sensor = moved.scene["wrist"].data
    robot = moved.scene["robot"]
    hand = robot.body_names.index("panda_hand")
    for _ in range(3):
        moved.step(torch.ones(NUM_ENVS, 7))
        points, _ = cloud(moved, "points")
        pos, quat = robot.data.body_link_pos_w.torch[:, hand], robot.data.body_link_quat_w.torch[:, hand]
        expected = pos + quat_apply(quat, torch.tensor([[0.07, 0.0, 0.0]]).expand(NUM_ENVS, 3))
        torch.testing.assert_close(sensor.pos_w.torch, expected, atol=1e-5, rtol=0)
        assert off_table_and_cube(moved, points[..., :3]).max() < TOLERANCE


def test_each_frame_shows_the_same_surfaces(moved: PlainEnv) -> None:
    origins, robot = moved.scene.env_origins, moved.scene["robot"].data
    hand = moved.scene["robot"].body_names.index("panda_hand")
    camera = moved.scene["front"].data
    poses = {
        "in_robot": (robot.root_link_pos_w.torch, robot.root_link_quat_w.torch),
        "in_gripper": (robot.body_link_pos_w.torch[:, hand], robot.body_link_quat_w.torch[:, hand]),
        "in_camera": (camera.pos_w.torch, camera.quat_w_ros.torch),
    }
    for name, (pos, quat) in poses.items():
        points, mask = cloud(moved, name)
        points, mask = points[:, :300, :3], mask[:, :300]
        world = quat_apply(quat[:, None].expand(-1, 300, -1), points) + pos[:, None]
        in_env = world - origins[:, None]
        assert off_table_and_cube(moved, in_env)[mask].max() < TOLERANCE
        assert (in_env >= torch.tensor([0.2, -0.5, -0.01]) - 1e-5).all()
        assert (in_env <= torch.tensor([0.84, 0.5, 0.6]) + 1e-5).all()


def test_a_camera_needs_no_calibration_to_tell_where_points_are_relative_to_itself(moved: PlainEnv) -> None:
    points, mask = cloud(moved, "miscalibrated")
    depth = depth_image(moved.scene["front"]).flatten(1)
    expected = depth.gather(1, moved.scene["miscalibrated"].data.pixels.torch.long())
    torch.testing.assert_close(points[..., 2][mask], expected[mask], atol=1e-5, rtol=0)


def test_classes_normals_and_colours_are_those_of_the_surface(moved: PlainEnv) -> None:
    points, _ = cloud(moved, "points")
    channels = moved.scene["points"].channels
    one_hot = points[..., channels["one_hot"]]
    on_top = (points[..., 2] - CUBE_EDGE).abs() < TOLERANCE
    on_table = (points[..., 2].abs() < TOLERANCE) & (one_hot[..., 0] == 1)
    assert on_table.any(dim=1).all()
    assert on_top.any()
    assert (one_hot[on_top] == torch.tensor([0.0, 1.0])).all()
    assert (one_hot.sum(-1) == 1).all()
    upward = points[..., channels["normals"]][..., 2]
    # Where a neighbour pixel lies on another surface the estimate leans; on the table that is the cube's surroundings.
    assert (upward[on_table] > 0.999).float().mean() > 0.9
    torch.testing.assert_close(points[..., channels["normals"]].norm(dim=-1), torch.ones(NUM_ENVS, 300))
    rgb = points[..., channels["rgb"]]
    assert ((rgb >= 0) & (rgb <= 1)).all()
    blue, brown = rgb[on_top].mean(0), rgb[on_table].mean(0)
    assert blue[2] > blue[0]
    assert brown[0] > brown[2]


def test_segmentation_removes_what_it_is_told_to(moved: PlainEnv) -> None:
    everything, _ = cloud(moved, "everything")
    names = moved.scene["front"].data.info["semantic_segmentation"]["idToLabels"]
    robot = next(int(key) for key, value in names.items() if value.get("class") == "robot")
    assert (everything[..., 3] == robot).any(dim=1).all()
    labels, _ = cloud(moved, "points")
    assert not (labels[..., moved.scene["points"].channels["segmentation"]] == robot).any()


def test_appended_points_follow_their_bodies_and_the_goal(moved: PlainEnv) -> None:
    sensor = moved.scene["in_gripper"]
    goal = moved.scene.env_origins[:, None] + torch.tensor([[[0.5, 0.1, 0.3], [0.4, 0.0, 0.2]]])
    sensor.given["goal"].copy_(goal)
    moved.step(torch.zeros(NUM_ENVS, 7))
    points, mask = cloud(moved, "in_gripper")
    assert points.shape == (NUM_ENVS, 300 + 40 + 24 + 2, 4)
    assert mask[:, 300:].all()
    assert (points[:, 300:, 3] == -1).all()
    robot = moved.scene["robot"].data
    hand = moved.scene["robot"].body_names.index("panda_hand")
    quat = robot.body_link_quat_w.torch[:, hand, None].expand(-1, points.shape[1], -1)
    world = quat_apply(quat, points[..., :3]) + robot.body_link_pos_w.torch[:, None, hand]
    fingers, cube, given = world[:, 300:340], world[:, 340:364], world[:, 364:]
    torch.testing.assert_close(given, goal, atol=1e-5, rtol=0)
    # The fingers are two pads and their carriers, at most 6 cm long, below the hand's flange.
    fingertips = points[:, 300:340, :3]
    assert (fingertips[..., 2] > 0.05).all()
    assert (fingertips[..., 2] < 0.13).all()
    assert (fingertips[..., 1] > 0).any()
    assert (fingertips[..., 1] < 0).any()
    assert fingers.shape == (NUM_ENVS, 40, 3)
    assert off_table_and_cube(moved, cube - moved.scene.env_origins[:, None]).max() < TOLERANCE


def test_latency_returns_the_cloud_of_two_frames_before(env: PlainEnv) -> None:
    env.reset(seed=4)
    prompt, late = [], []
    for _ in range(6):
        env.step(torch.full((NUM_ENVS, 7), 0.5))
        prompt.append(cloud(env, "prompt")[0])
        late.append(cloud(env, "late")[0])
    for frame in range(2, 6):
        assert torch.equal(late[frame], prompt[frame - 2])
        assert not torch.equal(late[frame], prompt[frame])


def test_the_same_seed_gives_the_same_clouds_and_a_reset_elsewhere_changes_nothing(env: PlainEnv) -> None:
    def run(reset_in_between: bool) -> torch.Tensor:
        for sensor in ("points", "in_camera"):
            env.scene[sensor].reseed(9)
        env.reset(seed=4)
        frames = []
        for step in range(4):
            if step == 2 and reset_in_between:
                env._reset_idx([1])
            env.step(torch.full((NUM_ENVS, 7), 0.3))
            frames.append(torch.cat([cloud(env, name)[0][..., :3] for name in ("points", "in_camera")], dim=1))
        return torch.stack(frames)

    first, again, with_reset = run(False), run(False), run(True)
    assert torch.equal(first, again)
    others = [0, 2]
    assert torch.equal(first[:, others], with_reset[:, others])
    assert not torch.equal(first[2:, 1], with_reset[2:, 1])


def test_unread_clouds_cost_nothing(env: PlainEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(type(env.scene["late"]), "_sample", lambda *args: calls.append(args))
    env.scene.update(env.physics_dt)
    assert calls == []


def by_pixel(env: PlainEnv, name: str, index: int) -> dict[int, torch.Tensor]:
    data = env.scene[name].data
    count = int(data.count.torch[index])
    return dict(zip(data.pixels.torch[index, :count].tolist(), data.points.torch[index, :count], strict=True))


def test_rays_give_the_points_of_the_rendered_pixels(moved: PlainEnv) -> None:
    channels = moved.scene["rays"].channels
    assert moved.scene["rays"].casts_rays
    assert not moved.scene["image"].casts_rays
    for index in range(NUM_ENVS):
        rays, image = by_pixel(moved, "rays", index), by_pixel(moved, "image", index)
        assert rays.keys() == image.keys()
        assert 300 < len(rays) < 1200, "the crop leaves some pixels out, and all others are taken"
        cast = torch.stack([rays[pixel] for pixel in image])
        rendered = torch.stack(list(image.values()))
        torch.testing.assert_close(cast[:, :3], rendered[:, :3], atol=1e-6, rtol=0)
        for feature in ("segmentation", "one_hot", "camera"):
            assert torch.equal(cast[:, channels[feature]], rendered[:, channels[feature]])
        off = (cast[:, channels["rgb"]] - rendered[:, channels["rgb"]]).abs().amax(dim=1) * 255
        assert (off < 1.5).float().mean() > 0.99, "a ray turned by its last digit may meet another surface"
        # The image's normals are estimated from neighbours, which fails at edges.
        agreement = (cast[:, channels["normals"]] * rendered[:, channels["normals"]]).sum(-1)
        assert agreement.median() > 0.9999
        torch.testing.assert_close(cast[:, channels["normals"]].norm(dim=-1), torch.ones(len(rays)))


def test_the_depth_of_a_ray_is_that_of_its_pixel(moved: PlainEnv) -> None:
    assert moved.scene["in_optical_frame"].casts_rays
    depth = depth_image(moved.scene["front"]).flatten(1)
    for index in range(NUM_ENVS):
        found = by_pixel(moved, "in_optical_frame", index)
        cast = torch.stack(list(found.values()))[:, 2]
        # Nearly to the last digit: the camera's pose is composed with its own inverse.
        torch.testing.assert_close(cast, depth[index, list(found)], atol=0, rtol=1e-6)


def test_each_valid_pixel_has_the_same_chance_of_a_ray(moved: PlainEnv) -> None:
    sensor, draws = moved.scene["few_rays"], 400
    hits = torch.zeros(NUM_ENVS, 40 * 30 + 20 * 16)
    for _ in range(draws):
        sensor.reset()
        pixels = sensor.data.pixels.torch.long()
        assert (sensor.data.count.torch == 40).all()
        hits.scatter_add_(1, pixels, torch.ones_like(pixels, dtype=torch.float32))
    for index in range(NUM_ENVS):
        valid = list(by_pixel(moved, "image", index))
        assert hits[index].sum() == hits[index, valid].sum(), "only valid pixels, and none twice in a cloud"
        chance = 40 / len(valid)
        normal = (hits[index, valid] - draws * chance) / (draws * chance * (1 - chance)) ** 0.5
        assert normal.abs().max() < 5.0
        # The sum of squares is chi-squared, with a standard deviation of sqrt(2 n).
        assert abs(float(normal.square().mean()) - 1.0) < 5.0 * (2.0 / len(valid)) ** 0.5


@pytest.mark.parametrize("noise", ["gaussian", "stereo", "light"])
def test_rays_err_as_the_pixels_of_images_do(moved: PlainEnv, noise: str) -> None:
    differing = 0
    total = 0
    for _ in range(20):
        for index in range(NUM_ENVS):
            rays, image = by_pixel(moved, f"{noise}_rays", index), by_pixel(moved, f"{noise}_image", index)
            both = [pixel for pixel in image if pixel in rays]
            total += len(image)
            differing += len(rays.keys() ^ image.keys())
            cast = torch.stack([rays[pixel] for pixel in both])
            rendered = torch.stack([image[pixel] for pixel in both])
            differing += int(((cast - rendered).abs() > 2e-3).any(dim=1).sum())
        for sensor in (moved.scene[f"{noise}_rays"], moved.scene[f"{noise}_image"]):
            sensor.reset()
    assert total > 20 * NUM_ENVS * 100
    # The angle of incidence is the surface's own by rays, and in images that of the neighbouring pixels.
    assert differing <= (0.02 * total if noise == "light" else 0)


@pytest.mark.parametrize("noise", ["stereo", "light"])
def test_rays_find_as_much_as_images_where_only_errors_make_points(moved: PlainEnv, noise: str) -> None:
    frames = 30
    found = []
    for way in ("rays", "image"):
        sensor = moved.scene[f"fine_{noise}_{way}"]
        found.append(torch.zeros(frames, NUM_ENVS, 3))
        for frame in range(frames):
            sensor.reset()
            data = sensor.data
            assert (data.count.torch < sensor.cfg.num_points).all(), "all valid ones are found"
            of_class = data.points.torch[..., sensor.channels["one_hot"]] * data.mask.torch[..., None]
            height = data.points.torch[..., 2] * of_class[..., 0]
            found[-1][frame] = torch.cat([of_class.sum(dim=1), height.sum(dim=1)[:, None]], dim=1)

    (rays_var, rays), (image_var, image) = (torch.var_mean(part, dim=0) for part in found)
    assert (image[:, 0] > 50).all(), "errors lift points above the table"
    assert (image[:, 1] > 200).all(), "the cube is seen"
    normal = (rays - image) / ((rays_var + image_var) / frames).sqrt().clamp(min=1e-3)
    assert normal.abs().max() < 5.0


def test_a_run_is_warned_where_all_its_clouds_are_empty(moved: PlainEnv) -> None:
    def env_with(*names: str) -> Any:
        return SimpleNamespace(scene=SimpleNamespace(sensors={name: moved.scene[name] for name in names}))

    assert warn_of_empty_clouds(env_with("front", "points", "of_nothing")) == []
    assert warn_of_empty_clouds(env_with("front")) == []
    assert len(warn_of_empty_clouds(env_with("front", "of_nothing"))) == 1


def test_what_the_projector_does_not_see_is_a_miss(moved: PlainEnv) -> None:
    camera = moved.scene["front"].data
    cube = moved.scene["cube"].data
    rotation = torch.tensor([RIGHT]).expand(NUM_ENVS, 3)
    projector = camera.pos_w.torch + quat_apply(camera.quat_w_ros.torch, rotation) * SHADOW_BASELINE
    for index in range(NUM_ENVS):
        seen, lit = by_pixel(moved, "in_optical_frame", index), by_pixel(moved, "shadowed", index)
        assert lit.keys() < seen.keys()
        points = torch.stack([seen[pixel] for pixel in seen])
        in_world = camera.pos_w.torch[index] + quat_apply(camera.quat_w_ros.torch[index].expand(len(points), 4), points)
        start, end = (
            quat_apply_inverse(
                cube.root_quat_w.torch[index].expand(len(points), 4),
                (place - cube.root_pos_w.torch[index]).expand_as(points),
            )
            for place in (in_world, projector[index])
        )
        # The cube itself, a little smaller, is on the way of these.
        a, b = ((sign * 0.49 * CUBE_EDGE - start) / (end - start) for sign in (-1.0, 1.0))
        blocked = torch.minimum(a, b).amax(dim=1).clamp(min=0.0) < torch.maximum(a, b).amin(dim=1).clamp(max=1.0)
        assert blocked.sum() > 0
        assert not lit.keys() & {pixel for pixel, is_blocked in zip(seen, blocked, strict=True) if is_blocked}


def test_steep_surfaces_are_misses(moved: PlainEnv) -> None:
    for index in range(NUM_ENVS):
        seen, flat = by_pixel(moved, "steep_too", index), by_pixel(moved, "flat_alone", index)
        assert 0 < len(flat) < len(seen)
        # Normals are in the camera's frame, where the optical axis is z.
        angles = {pixel: float(torch.acos(-point[5].clamp(-1.0, 1.0))) for pixel, point in seen.items()}
        assert flat.keys() == {pixel for pixel, angle in angles.items() if angle <= MAX_INCIDENCE}


def test_a_camera_without_a_place_gives_no_points(moved: PlainEnv) -> None:
    sensor, camera = moved.scene["in_optical_frame"], moved.scene["front"]
    poses = wp.to_torch(camera._render_data.camera_transforms)
    kept = poses.clone()
    try:
        poses[0, 1, 0] = torch.nan
        sensor.reset()
        counts = sensor.data.count.torch
        assert counts[1] == 0
        assert not sensor.data.points.torch[1].any()
        assert (counts[[0, 2]] > 300).all()
    finally:
        poses.copy_(kept)
        sensor.reset()
