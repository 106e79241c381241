# SPDX-License-Identifier: BSD-3-Clause
"""Frames of a LeRobot dataset: all in the frame of the robot's base, with units and names; and episodes of frames."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from isaaclab_pc.demos.convert.lerobot_dataset import (
    CLOUD,
    World,
    describe_read,
    features_to_read,
    main,
    write_episode,
)

STEPS, POINTS, APPENDED = 4, 5, 2
BASE_POS = [0.1, -0.2, 0.3]
BASE = Rotation.from_euler("z", 90, degrees=True)


def description(rate: float = 30.0) -> dict[str, Any]:
    parts = [{"name": "joint", "size": 2, "steps_ago": ago, "unit": "rad"} for ago in (1, 0)]
    return {
        "task": "Lift a cube.",
        "inputs": [{"name": "policy", "parts": [{"from": 2 * i, "to": 2 * i + 2, **p} for i, p in enumerate(parts)]}],
        "output": {"rate_hz": rate, "parts": [{"from": 0, "to": 3, "name": "way", "size": 3, "unit": "m"}]},
        "robot": {"name": "franka", "base_pos": BASE_POS, "base_quat": BASE.as_quat().tolist()},
        "cloud": {"num_points": POINTS, "channels": {"xyz": [0, 3], "normals": [3, 6], "rgb": [6, 9]}},
        "cameras": {"camera": {"near": 0.05, "miss_from": 5.0}},
    }


@pytest.fixture
def demo():
    """An episode: two frames a step, a tool that turns and moves, and a cloud that is one step old."""
    rng = np.random.default_rng(0)
    with h5py.File("demos.hdf5", "w", driver="core", backing_store=False) as file:
        made: Any = file.create_group("demo_0")
        made.attrs["success"] = True
        made["actions"] = rng.uniform(-1, 1, (STEPS, 3)).astype(np.float32)
        made["rewards"] = np.arange(STEPS, dtype=np.float32)
        made["obs/policy"] = np.arange(4 * STEPS, dtype=np.float32).reshape(STEPS, 4)
        made["obs/critic"] = rng.uniform(size=(STEPS, 6)).astype(np.float32)
        made["obs/points"] = rng.uniform(-0.5, 0.5, (STEPS, 2, POINTS + APPENDED, 9)).astype(np.float16)
        made["cloud/count"] = np.array([0, 2, 5, 5], dtype=np.int32)
        made["cloud/age"] = np.ones(STEPS, dtype=np.int64)
        made["cloud/frame_pos"] = rng.uniform(-0.5, 0.5, (STEPS, 3)).astype(np.float32)
        made["cloud/frame_quat"] = Rotation.random(STEPS, rng=rng).as_quat().astype(np.float32)
        made["cameras/camera/pos"] = rng.uniform(-0.5, 0.5, (STEPS, 3)).astype(np.float32)
        made["cameras/camera/quat"] = Rotation.random(STEPS, rng=rng).as_quat().astype(np.float32)
        made["cameras/camera/intrinsics"] = np.tile(np.eye(3, dtype=np.float32), (STEPS, 1, 1))
        made["cameras/camera/depth"] = np.full((STEPS, 6, 8), 1234, dtype=np.uint16)
        yield made


def test_a_cloud_is_where_the_frame_of_its_points_was_when_it_was_seen(demo: Any) -> None:
    frames = World(description()).frames(demo)
    points = np.asarray(demo["obs/points"], dtype=np.float64)[:, -1]
    for step in range(STEPS):
        seen = max(step - 1, 0)
        turn = Rotation.from_quat(demo["cloud/frame_quat"][seen])
        in_env = turn.apply(points[step, :, :3]) + demo["cloud/frame_pos"][seen]
        assert np.allclose(frames["observation.pointcloud.xyz"][step], BASE.inv().apply(in_env - BASE_POS), atol=1e-6)
        normals = BASE.inv().apply(turn.apply(points[step, :, 3:6]))
        assert np.allclose(frames["observation.pointcloud.normals"][step], normals, atol=1e-6)
        assert np.array_equal(frames["observation.pointcloud.rgb"][step], points[step, :, 6:].astype(np.float32))


def test_distinct_and_appended_points_are_told(demo: Any) -> None:
    mask = World(description()).frames(demo)["observation.pointcloud.mask"]
    assert mask.dtype == np.float32
    assert mask.tolist()[1] == [1, 1, 0, 0, 0, 1, 1]
    assert mask.sum(axis=1).tolist() == [2, 4, 7, 7]


def test_extrinsics_lead_from_the_camera_to_the_robots_base(demo: Any) -> None:
    frames = World(description()).frames(demo)
    extrinsics = frames["observation.camera.extrinsics"]
    for step, matrix in enumerate(extrinsics):
        in_camera = np.array([0.1, 0.2, 0.9])
        camera = demo["cameras/camera"]
        in_env = Rotation.from_quat(camera["quat"][step]).apply(in_camera) + camera["pos"][step]
        in_base = matrix @ [*in_camera, 1.0]
        assert np.allclose(in_base[:3], BASE.inv().apply(in_env - BASE_POS), atol=1e-6)


def test_features_have_names_units_and_the_depths_own_flag(demo: Any) -> None:
    world = World(description())
    frames = world.frames(demo)
    features = {name: world.feature(name, values) for name, values in frames.items()}
    assert features["observation.state"]["names"] == ["joint.0", "joint.1"]
    assert frames["observation.state"].tolist() == np.asarray(demo["obs/policy"])[:, 2:].tolist()
    assert features["action"]["info"]["parts"][0]["unit"] == "m"
    assert features["observation.images.camera"]["info"] == {"is_depth_map": True}
    assert features["observation.images.camera"]["shape"] == (6, 8, 1)
    assert (frames["next.success"][:, 0].tolist(), features["next.success"]["dtype"]) == ([False] * 3 + [True], "bool")
    assert world.depth_range() == {"depth_min": 0.05, "depth_max": 5.0}


def test_a_dataset_is_whole_frames_a_second() -> None:
    with pytest.raises(ValueError, match=r"33\.33"):
        World(description(rate=100 / 3))


def read(frames: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Return what is written of the frames of an episode."""
    with h5py.File("read.hdf5", "w", driver="core", backing_store=False) as file:
        episode: Any = file.create_group("demo_0")
        write_episode(episode, frames, described)
        written = {key: episode[key][:] for key in ("actions", "obs/policy", "obs/critic", "obs/points")}
        return {**written, "attributes": dict(episode.attrs)}


def test_a_recording_is_read_as_it_was_observed(demo: Any) -> None:
    episode = read(World(description()).frames(demo), describe_read(description(), [f"{CLOUD}frame"], 30))
    assert episode["attributes"] == {"num_samples": STEPS, "success": True}
    assert np.array_equal(episode["actions"], demo["actions"])
    assert np.array_equal(episode["obs/policy"], demo["obs/policy"][:, 2:])
    assert np.array_equal(episode["obs/critic"], demo["obs/critic"])

    newest = demo["obs/points"][:, -1].astype(np.float32)
    assert episode["obs/points"].dtype == np.float16
    for step, count in enumerate(demo["cloud/count"]):
        distinct = [*range(count), POINTS, POINTS + 1]
        expected = np.array(newest[step])
        repeated = [distinct[index % len(distinct)] for index in range(POINTS - count)]
        expected[count:POINTS] = newest[step, repeated]
        np.testing.assert_allclose(episode["obs/points"][step], expected, atol=1e-3)


def test_older_frames_are_not_described() -> None:
    (state,) = describe_read(description(), [], 30)["inputs"]
    assert state["parts"] == [{"from": 0, "to": 2, "name": "joint", "size": 2, "steps_ago": 0, "unit": "rad"}]


def test_a_dataset_of_others_is_in_the_frame_of_the_base(demo: Any) -> None:
    described = describe_read(None, [], 20)
    assert described == {"output": {"rate_hz": 20}, "cloud": {"frame": "robot"}}
    frames = World(description()).frames(demo)
    for name in ("frame", "mask", "normals", "rgb"):
        del frames[CLOUD + name]
    del frames["next.success"]
    episode = read(frames, described)
    np.testing.assert_allclose(episode["obs/points"], frames[f"{CLOUD}xyz"], atol=1e-3)
    assert episode["attributes"]["success"]


def test_points_without_the_frame_in_which_they_were_observed_are_told_to_be_in_the_base() -> None:
    recorded = description()
    recorded["cloud"]["frame"] = "gripper"
    frames = {names: describe_read(recorded, names, 30)["cloud"]["frame"] for names in ((f"{CLOUD}frame",), ())}
    assert frames == {(f"{CLOUD}frame",): "gripper", (): "robot"}


def test_missing_features_are_named() -> None:
    with pytest.raises(ValueError, match=r"lacks action and observation\.state: .* observation\.images\.top"):
        features_to_read({"observation.images.top": {}})
    there = ["timestamp", "action", "observation.state", f"{CLOUD}xyz", "observation.images.top", "next.success"]
    assert features_to_read(dict.fromkeys(there)) == ["action", "observation.state", f"{CLOUD}xyz", "next.success"]


def test_what_cannot_be_converted_is_refused_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(file: str, out: str) -> str:
        monkeypatch.setattr("sys.argv", ["lerobot_dataset.py", str(tmp_path / file), str(tmp_path / out)])
        assert main() == 2
        return capsys.readouterr().err

    assert "missing.hdf5" in convert("missing.hdf5", "out")
    assert "there already" in convert("missing.hdf5", ".")
    with h5py.File(tmp_path / "old.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = "{}"
    assert "record it anew" in convert("old.hdf5", "out")
    assert [path.name for path in tmp_path.iterdir()] == ["old.hdf5"]
