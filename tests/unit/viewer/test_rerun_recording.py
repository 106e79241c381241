# SPDX-License-Identifier: BSD-3-Clause
"""A recording, read back."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: uv pip install -c constraints.txt -e '.[viz]'")

import rerun.blueprint as rrb
from scipy.spatial.transform import Rotation

from isaaclab_pc.viewer.rerun_recording import RerunRecording, _blueprint
from isaaclab_pc.viewer.scene_frame import CameraView
from tests.unit.viewer import scenes
from tests.unit.viewer.recordings import camera_points, read, rgb


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A reset and two steps; the guard finds something in the second one."""
    path = tmp_path_factory.mktemp("recording") / "out.rrd"
    recording = RerunRecording(path, scenes.layout(), color="camera")
    recording.write(scenes.frame(0, actions=None, reward=None, reward_terms={}, success=None, done=None))
    recording.write(scenes.frame(1))
    recording.write(scenes.frame(2, faults=((), ("joint_velocity", "reward"))))
    recording.close()
    return path


def test_every_environment_has_its_cloud_in_every_frame(path):
    for env, origin in enumerate(scenes.ORIGINS):
        points = read(path, f"env_{env}/cloud", "Points3D:positions")
        assert sorted(points) == [0, 1, 2]
        assert np.allclose(points[2], np.array([2.0, 0.0, 0.25]) + origin)
        assert np.shape(points[1]) == (scenes.POINTS, 3)
        colors = read(path, f"env_{env}/cloud", "Points3D:colors")
        assert np.all(rgb(colors[1]) == 20)


def test_a_reset_has_no_reward_and_every_step_has_its_terms(path):
    assert read(path, "env_0/reward/total", "Scalars:scalars") == {1: [0.5], 2: [0.5]}
    assert read(path, "env_1/reward/reach", "Scalars:scalars") == {1: [0.25], 2: [0.25]}
    assert read(path, "env_0/action/1", "Scalars:scalars") == {1: [-0.2], 2: [-0.2]}
    assert read(path, "env_1/success", "Scalars:scalars") == {1: [1.0], 2: [1.0]}


def test_faults_are_in_the_log_of_their_environment(path):
    ((step, (text,)),) = read(path, "env_1/guard", "TextLog:text").items()
    assert (step, text.split(": ")[-1]) == (2, "joint_velocity, reward")
    assert read(path, "env_0/guard", "TextLog:text") == {}


def test_bodies_cameras_and_goals_are_where_they_are(path):
    assert np.allclose(read(path, "bodies/part_0", "InstancePoses3D:translations")[1], scenes.ORIGINS)
    assert np.allclose(read(path, "env_1/camera", "Transform3D:translation")[1], scenes.ORIGINS[1])
    assert np.allclose(read(path, "env_1/goal", "Points3D:positions")[1], scenes.ORIGINS[1] + 0.1)
    assert all(len(read(path, f"env_0/{name}/depth", "DepthImage:buffer")) == 3 for name in scenes.CAMERAS)


def origins(part: Any) -> set[str]:
    """Return what the views of a part of a blueprint show."""
    if isinstance(part, rrb.View):
        return {str(part.origin)}
    return set().union(*(origins(one) for one in part.contents))


def test_every_camera_has_a_view_in_each_environments_tab():
    shown = origins(_blueprint(scenes.layout()).root_container)
    assert {f"env_{env}/{name}" for env in range(2) for name in scenes.CAMERAS} <= shown


def test_a_turned_camera_and_a_turned_gripper_are_recorded_as_they_stand(tmp_path):
    rotation = Rotation.from_euler("xyz", [0.4, -0.7, 1.1])
    poses = np.tile(np.concatenate([[0.3, -0.2, 0.9], rotation.as_quat()]), (2, 1)).astype(np.float32)
    intrinsics = np.tile(np.array([[8.0, 0.0, 3.0], [0.0, 9.0, 2.0], [0.0, 0.0, 1.0]]), (2, 1, 1))
    depth = np.zeros((2, 6, 8), np.float32)
    depth[1, 4, 5] = 2.0
    path = tmp_path / "out.rrd"
    recording = RerunRecording(path, scenes.layout())
    recording.write(scenes.frame(1, gripper=poses, cameras=(CameraView("camera", poses, intrinsics, depth),)))
    recording.close()

    expected = poses[1, :3] + rotation.apply([2.5 / 8.0 * 2.0, 2.5 / 9.0 * 2.0, 2.0])
    assert camera_points(path, "env_1/camera", 1) == pytest.approx(expected[None], abs=1e-5)
    gripper = Rotation.from_quat(read(path, "env_1/gripper", "Transform3D:quaternion")[1][0])
    assert (gripper * rotation.inv()).magnitude() < 1e-5
