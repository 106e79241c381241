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
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.workers.view import view
from tests.unit.viewer.recordings import camera_points, entities_of, read

pytestmark = [pytest.mark.sim, pytest.mark.physx]

STEPS = 3
ENVS = 2


@pytest.fixture
def truth(monkeypatch):
    """What the simulation says after each step, by the step."""
    seen = {}
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
        seen[len(seen) + 1] = now
        return frame

    monkeypatch.setattr(SceneReader, "after_step", remember)
    return seen


def test_a_recording_holds_the_policys_clouds_and_where_everything_is(tmp_path, truth):
    settings = choose_platform(compose(["task=reach", f"num_envs={ENVS}", "device=cpu", "physics=ovphysx"]))
    path = tmp_path / "out.rrd"
    with use(Lines(io.StringIO())) as screen:
        assert view(ViewJob(settings, record=path, steps=STEPS), tmp_path, screen) == 0
    assert sorted(truth) == [1, 2, 3]
    parts = sorted(name for name in entities_of(path) if name.startswith("bodies/"))
    bodies = [read(path, part, "InstancePoses3D:translations") for part in parts]

    for env in range(ENVS):
        root = f"env_{env}"
        clouds = read(path, f"{root}/cloud", "Points3D:positions")
        assert sorted(clouds) == [0, *truth]
        places = {
            "tool_pos": read(path, f"{root}/gripper", "Transform3D:translation"),
            "camera_pos": read(path, f"{root}/camera", "Transform3D:translation"),
        }
        rewards = read(path, f"{root}/reward/total", "Scalars:scalars")
        for step, now in truth.items():
            assert clouds[step] == pytest.approx(now["cloud"][env], rel=0.0, abs=1e-5)
            for name, logged in places.items():
                assert logged[step][0] == pytest.approx(now[name][env], rel=0.0, abs=1e-5), name
            drawn = np.concatenate([part[step] for part in bodies])
            assert np.abs(drawn - now["target"][env]).max(axis=1).min() < 1e-5, "the target is drawn where it is"
            assert rewards[step] == pytest.approx([now["reward"][env]])

            # The depth image and the camera's pose make the cloud again: each point is one of its pixels.
            pixels = camera_points(path, f"{root}/camera", step)
            away = np.linalg.norm(np.array(clouds[step])[:, None] - pixels[None], axis=-1).min(axis=1)
            assert away.max() < 2e-3, "float16 points"
