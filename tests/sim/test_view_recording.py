# SPDX-License-Identifier: BSD-3-Clause
"""A view that is recorded: what is shown is what is simulated."""

import io

import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: uv pip install -c constraints.txt -e '.[viz]'")

from scipy.spatial.transform import Rotation

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.jobs import ViewJob
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.terminal.screen import Lines, use
from isaaclab_pc.viewer.point_colors import colors_by_height
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.workers.view import view
from tests.unit.viewer.recordings import camera_points, entities_of, read, rgb

pytestmark = pytest.mark.sim

STEPS = 3
ENVS = 2


@pytest.fixture
def settings():
    """The settings of two environments of reach."""
    return choose_platform(compose(["task=reach", f"num_envs={ENVS}", "device=cpu", "physics=newton_mjwarp"]))


@pytest.fixture
def truth(monkeypatch):
    """What the simulation says after each step, by the step."""
    seen = {}
    after_step = SceneReader.after_step

    def remember(reader, actions, result):
        frame = after_step(reader, actions, result)
        env = reader._env
        origins = env.scene.env_origins
        camera = env.camera.data
        state = {
            "points": result[0]["points"].float(),
            "tool_pos": env.tool_pos + origins,
            "tool_quat": env.tool_quat,
            "target": env.scene["target"].data.root_pos_w.torch,
            "camera_pos": camera.pos_w.torch,
            "camera_quat": camera.quat_w_ros.torch,
            "origins": origins,
            "reward": result[1],
        }
        now = {name: value.numpy().copy() for name, value in state.items()}
        assert env.point_cloud.cfg.frame == "gripper"
        hands = zip(now["tool_quat"], now["points"], now["tool_pos"], strict=True)
        now["cloud"] = np.array([Rotation.from_quat(quat).apply(points) + pos for quat, points, pos in hands])
        seen[len(seen) + 1] = now
        return frame

    monkeypatch.setattr(SceneReader, "after_step", remember)
    return seen


def test_a_recording_holds_the_policys_clouds_and_where_everything_is(settings, tmp_path, truth):
    path = tmp_path / "out.rrd"
    with use(Lines(io.StringIO())) as screen:
        assert view(ViewJob(settings, record=path, steps=STEPS), tmp_path, screen) == 0
    assert sorted(truth) == [1, 2, 3]
    parts = sorted(name for name in entities_of(path) if name.startswith("bodies/"))
    bodies = [read(path, part, "InstancePoses3D:translations") for part in parts]

    for env in range(ENVS):
        root = f"env_{env}"
        clouds = read(path, f"{root}/cloud", "Points3D:positions")
        colors = read(path, f"{root}/cloud", "Points3D:colors")
        assert sorted(clouds) == sorted(colors) == [0, *truth]
        entities = {
            "tool_pos": read(path, f"{root}/gripper", "Transform3D:translation"),
            "camera_pos": read(path, f"{root}/camera", "Transform3D:translation"),
            "origins": read(path, f"{root}/crop", "Transform3D:translation"),
        }
        turned = {
            "tool_quat": read(path, f"{root}/gripper", "Transform3D:quaternion"),
            "camera_quat": read(path, f"{root}/camera", "Transform3D:quaternion"),
        }
        rewards = read(path, f"{root}/reward/total", "Scalars:scalars")
        for step, now in truth.items():
            cloud = np.array(clouds[step])
            assert cloud.shape == now["cloud"][env].shape
            assert np.allclose(cloud, now["cloud"][env], rtol=0.0, atol=1e-5)
            assert np.array_equal(rgb(colors[step]), colors_by_height(cloud[:, 2].astype(np.float32)))
            for name, logged in entities.items():
                assert np.allclose(logged[step][0], now[name][env], rtol=0.0, atol=1e-5), name
            drawn = np.concatenate([places[step] for places in bodies])
            assert np.abs(drawn - now["target"][env]).max(axis=1).min() < 1e-5, "the target is drawn where it is"
            for name, logged in turned.items():
                between = Rotation.from_quat(logged[step][0]).inv() * Rotation.from_quat(now[name][env])
                assert between.magnitude() < 1e-5, name
            assert rewards[step] == pytest.approx([now["reward"][env]])

            # The depth image and the camera's place make the cloud again: each point is one of its pixels.
            pixels = camera_points(path, f"{root}/camera", step)
            away = np.linalg.norm(cloud[:, None] - pixels[None], axis=-1).min(axis=1)
            assert away.max() < 2e-3, "float16 points"
