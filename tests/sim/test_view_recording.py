# SPDX-License-Identifier: BSD-3-Clause
"""A view that is filmed: what is shown is what is simulated."""

import io

import numpy as np
import pytest

pytest.importorskip("av", reason="needs av: uv pip install -c constraints.txt -e '.[viz]'")

from scipy.spatial.transform import Rotation

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.jobs import ViewJob
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.terminal.screen import Lines, use
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.workers.view import view

pytestmark = [pytest.mark.sim, pytest.mark.physx]

STEPS = 3
ENVS = 2


@pytest.fixture
def shown(monkeypatch):
    """Each frame after a step, and what the simulation says then."""
    seen = []
    after_step = SceneReader.after_step

    def remember(reader, actions, result):
        frame = after_step(reader, actions, result)
        env = reader._env
        origins = env.scene.env_origins
        state = {
            "points": result[0]["points"].float(),
            "tool_pos": env.tool_pos + origins,
            "tool_quat": env.tool_quat,
            "target": env.scene["target"].data.root_pos_w.torch,
            "camera_pos": env.camera.data.pos_w.torch,
            "reward": result[1],
        }
        now = {name: value.numpy().copy() for name, value in state.items()}
        assert env.point_cloud.cfg.frame == "gripper"
        hands = zip(now["tool_quat"], now["points"], now["tool_pos"], strict=True)
        now["cloud"] = np.array([Rotation.from_quat(quat).apply(points) + pos for quat, points, pos in hands])
        seen.append((frame, now))
        return frame

    monkeypatch.setattr(SceneReader, "after_step", remember)
    return seen


def pixels_in_world(camera, env):
    """Return what a camera's depth image shows in the world [m], shape (P, 3)."""
    rows, columns = np.nonzero(camera.depth[env])
    centers = np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))])
    rays = np.linalg.solve(camera.intrinsics[env], centers).T
    rotation = Rotation.from_quat(camera.poses[env, 3:])
    return rotation.apply(rays * camera.depth[env, rows, columns, None]) + camera.poses[env, :3]


def test_a_film_is_made_of_the_policys_clouds_and_where_everything_is(tmp_path, shown):
    settings = choose_platform(compose(["task=reach", f"num_envs={ENVS}", "device=cpu", "physics=ovphysx"]))
    path = tmp_path / "out.mp4"
    with use(Lines(io.StringIO())) as screen:
        assert view(ViewJob(settings, record=path, steps=STEPS), tmp_path, screen) == 0
    assert path.stat().st_size > 0
    assert len(shown) == STEPS

    for frame, now in shown:
        assert frame.cloud == pytest.approx(now["cloud"], rel=0.0, abs=1e-5)
        assert frame.gripper[:, :3] == pytest.approx(now["tool_pos"], rel=0.0, abs=1e-5)
        (camera,) = frame.cameras
        assert camera.poses[:, :3] == pytest.approx(now["camera_pos"], rel=0.0, abs=1e-5)
        assert frame.reward == pytest.approx(now["reward"])
        drawn = np.concatenate([poses[:, :3] for poses in frame.part_poses])
        for env in range(ENVS):
            assert np.abs(drawn - now["target"][env]).max(axis=1).min() < 1e-5, "the target is drawn where it is"
            # The depth image and the camera's pose make the cloud again: each point is one of its pixels.
            pixels = pixels_in_world(camera, env)
            assert np.linalg.norm(frame.cloud[env][:, None] - pixels[None], axis=-1).min(axis=1).max() < 2e-3
