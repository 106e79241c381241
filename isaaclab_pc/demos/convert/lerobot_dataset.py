# SPDX-License-Identifier: BSD-3-Clause
# /// script
# requires-python = ">=3.12"
# dependencies = ["lerobot[dataset]>=0.6,<0.7", "h5py>=3", "scipy>=1.11"]
# ///
"""Recorded demonstrations as a LeRobot dataset, and such a dataset as demonstrations, by lerobot's own library.

    uv run isaaclab_pc/demos/convert/lerobot_dataset.py logs/demo/lift/demos.hdf5 logs/demo/lift/lerobot
    uv run isaaclab_pc/demos/convert/lerobot_dataset.py logs/demo/lift/lerobot read.hdf5

``scripts/demo.py format=lerobot`` and ``scripts/train.py demos=<folder>`` run it. A script with an environment of its
own, which uv makes of the lines above: lerobot needs other versions of numpy and packaging than simulators. So it
imports nothing of this package, and needs no simulator.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.spatial.transform import Rotation

EXTRAS = "meta/isaaclab_pc.json"
"""File of a dataset for what LeRobot has no place for: settings, description of what is observed, and seeds."""

LICENSE = "bsd-3-clause"

LOSSLESS = {"x265-params": "lossless=1:log-level=error"}

CLOUD = "observation.pointcloud."

VECTORS = {"actions": "action", "obs/policy": "observation.state", "obs/critic": "observation.environment_state"}
"""Features of a dataset by where a file has them; the last may be missing."""


def write_lerobot_dataset(path: Path, out: Path, say: Callable[[str], object]) -> None:
    """Write the episodes of a file of :mod:`isaaclab_pc.demos.demo_file` as a LeRobotDataset v3.

    A frame has what the policy observed before its action. Positions and poses are in the frame of the robot's base.
    With P numbers of proprioception, A of an action, S of the simulator's state, and K points:

    - ``observation.state`` (P,), ``action`` (A,) and ``observation.environment_state`` (S,), float32, as recorded;
    - ``observation.pointcloud.xyz`` (K, 3) [m], float32, ``observation.pointcloud.mask`` (K,), 1 at distinct points,
      each further feature of the points, ``observation.pointcloud.<feature>``, and ``observation.pointcloud.frame``
      (4, 4), the pose of the frame in which they were observed;
    - where depth was recorded, ``observation.images.<camera>``, a depth map in millimetres as lerobot encodes them; 0,
      where there is none, becomes the smallest encoded depth, that of the camera's near plane;
    - ``observation.<camera>.intrinsics`` (3, 3) [px], and ``observation.<camera>.extrinsics`` (4, 4) from the camera's
      optical frame;
    - ``next.reward``, ``next.done`` and ``next.success``, (1,).

    ``say`` is called with a line of progress.

    Raises:
        OSError: The file cannot be read.
        ValueError: The folder exists, or the file lacks what a dataset needs.
    """
    if out.exists():
        raise ValueError(f"out={out} is there already: give another folder, or remove it.")

    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with h5py.File(path, "r", locking=False) as file:
            _write(file["data"], draft, say)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(data: Any, folder: Path, say: Callable[[str], object]) -> None:
    env_args = json.loads(data.attrs["env_args"])
    if not env_args.get("description"):
        raise ValueError("the file is of an earlier version, which recorded no calibration: record it anew.")
    world = World(env_args["description"])
    demos = [data[f"demo_{index}"] for index in range(len(data))]
    if not demos:
        raise ValueError("the file holds no episode: record one first.")

    from lerobot.configs import DepthEncoderConfig  # pyright: ignore[reportMissingImports]
    from lerobot.datasets import LeRobotDataset  # pyright: ignore[reportMissingImports]
    from lerobot.datasets.utils import create_lerobot_dataset_card  # pyright: ignore[reportMissingImports]

    dataset = LeRobotDataset.create(
        f"isaaclab_pc/{env_args['task']}",
        world.frames_per_s,
        {name: world.feature(name, values) for name, values in world.frames(demos[0]).items()},
        root=folder,
        video_backend="pyav",
        robot_type=world.description["robot"]["name"],
        depth_encoder=DepthEncoderConfig(**world.depth_range(), extra_options=LOSSLESS),
    )
    for number, demo in enumerate(demos, 1):
        frames = world.frames(demo)
        for step in range(len(frames["action"])):
            dataset.add_frame({"task": world.task, **{name: value[step] for name, value in frames.items()}})
        dataset.save_episode()
        if number % 10 == 0 or number == len(demos):
            say(f"{number}/{len(demos)} episodes written")
    dataset.finalize()

    rate = f"{data.attrs['successes']} of {data.attrs['attempts']} episodes"
    card = create_lerobot_dataset_card(
        tags=["point-cloud", "simulation"],
        dataset_info=dataset.meta.info,
        license=LICENSE,
        dataset_description=_describe(env_args, world.task, len(demos), rate),
    )
    card.save(folder / "README.md")
    starts = [{name: demo.attrs[name].item() for name in ("seed", "env", "success")} for demo in demos]
    (folder / EXTRAS).write_text(json.dumps({**env_args, "episodes": starts}, indent=1), encoding="utf-8")


class World:
    """Reads episodes in the light of the description that was recorded with them."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """Take a description; a ValueError refuses one of fractions of frames per second."""
        self.description = description
        self.task: str = description["task"]
        rate = description["output"]["rate_hz"]
        self.frames_per_s = round(rate)
        if abs(rate - self.frames_per_s) > 1e-3 * rate:
            raise ValueError(
                f"LeRobot stores whole frames per second, and the recording has {rate:.4g}: record it with another "
                "physics.dt or env.decimation."
            )
        robot = description["robot"]
        self._base_pos = np.array(robot["base_pos"])
        self._to_base = Rotation.from_quat(robot["base_quat"]).inv()
        inputs = {entry["name"]: entry for entry in description["inputs"]}
        newest = [part for part in inputs["policy"]["parts"] if part["steps_ago"] == 0]
        self._state = slice(newest[0]["from"], newest[-1]["to"])
        self._parts = {"observation.state": newest, "action": description["output"]["parts"]}

    def frames(self, demo: Any) -> dict[str, np.ndarray]:
        """Return the values of an episode by the names of the features, each (T, ...)."""
        steps = len(demo["actions"])
        last = np.arange(steps) == steps - 1
        return self.observed(demo) | {
            "action": np.asarray(demo["actions"]),
            "next.reward": np.asarray(demo["rewards"], dtype=np.float32)[:, None],
            "next.done": last[:, None],
            "next.success": (last & bool(demo.attrs["success"]))[:, None],
        }

    def observed(self, demo: Any) -> dict[str, np.ndarray]:
        """Return what was observed, each (T, ...): as :meth:`frames`, without actions and what came of them."""
        result = {
            "observation.state": np.asarray(demo["obs"]["policy"][:, self._state]),
            "observation.environment_state": np.asarray(demo["obs"]["critic"]),
        }
        if "points" in demo["obs"]:
            result |= self._cloud(demo["obs"]["points"], demo["cloud"])
        for name, camera in demo.get("cameras", {}).items():
            result |= self._camera(name, camera)
        return result

    def feature(self, name: str, values: np.ndarray) -> dict[str, Any]:
        """Return LeRobot's description of a feature that has such values."""
        shape = tuple(values.shape[1:])
        if name.startswith("observation.images."):
            names = ["height", "width", "channels"]
            return {"dtype": "video", "shape": shape, "names": names, "info": {"is_depth_map": True}}
        feature: dict[str, Any] = {"dtype": str(values.dtype), "shape": shape, "names": None}
        if name in self._parts:
            parts = self._parts[name]
            feature["names"] = [f"{part['name']}.{index}" for part in parts for index in range(part["size"])]
            feature["info"] = {"parts": parts}
        return feature

    def depth_range(self) -> dict[str, float]:
        """Return the range [m] that the codes of depth maps are spread over."""
        cameras = self.description.get("cameras", {}).values()
        return {
            "depth_min": min((camera["near"] for camera in cameras), default=0.01),
            "depth_max": max((camera["miss_from"] for camera in cameras), default=10.0),
        }

    def _cloud(self, values: Any, made: Any) -> dict[str, np.ndarray]:
        cloud = self.description["cloud"]
        # Of several frames, the last one is that of the step.
        points = np.asarray(values, dtype=np.float32)
        points = points[:, -1] if points.ndim == 4 else points
        seen = np.maximum(np.arange(len(points)) - np.asarray(made["age"]), 0)
        origin = self._to_base.apply(np.asarray(made["frame_pos"])[seen] - self._base_pos)
        turn = (self._to_base * Rotation.from_quat(np.asarray(made["frame_quat"])[seen])).as_matrix()
        ranks = np.arange(points.shape[1])
        count = np.asarray(made["count"])[:, None]
        result = {
            f"{CLOUD}frame": _poses(turn, origin),
            # Numbers, since lerobot's policies normalize what they are given, and booleans cannot be.
            f"{CLOUD}mask": ((ranks < count) | (ranks >= cloud["num_points"])).astype(np.float32),
        }
        for name, (first, end) in cloud["channels"].items():
            values = points[..., first:end]
            if name in ("xyz", "normals"):
                values = np.einsum("tij,tkj->tki", turn, values)
            if name == "xyz":
                values += origin[:, None]
            result[CLOUD + name] = values.astype(np.float32)
        return result

    def _camera(self, name: str, camera: Any) -> dict[str, np.ndarray]:
        turn = (self._to_base * Rotation.from_quat(camera["quat"])).as_matrix()
        result = {
            f"observation.{name}.intrinsics": np.asarray(camera["intrinsics"]),
            f"observation.{name}.extrinsics": _poses(turn, self._to_base.apply(camera["pos"] - self._base_pos)),
        }
        if "depth" in camera:
            result[f"observation.images.{name}"] = np.asarray(camera["depth"])[..., None]
        return result


def _poses(turn: np.ndarray, pos: np.ndarray) -> np.ndarray:
    """Return rotations (T, 3, 3) and positions (T, 3) as matrices (T, 4, 4), float32."""
    poses = np.tile(np.eye(4, dtype=np.float32), (len(pos), 1, 1))
    poses[:, :3, :3] = turn
    poses[:, :3, 3] = pos
    return poses


def _describe(env_args: Mapping[str, Any], task: str, episodes: int, rate: str) -> str:
    return (
        f"{task} {episodes} episodes of the task's expert, which acts on the simulator's state and succeeded in "
        f"{rate}, recorded in simulation by isaaclab_pc, commit {env_args['git'] or 'unknown'}:\n\n"
        f"    {env_args['command']}\n\n"
        "Positions are in metres, in the frame of the robot's base. Each feature's unit and meaning is in "
        f"meta/info.json; settings, cameras and each episode's seed are in {EXTRAS}."
    )


def read_lerobot_dataset(folder: Path, out: Path, say: Callable[[str], object]) -> None:
    """Write the episodes of a LeRobotDataset v3 as a file in the layout of :mod:`isaaclab_pc.demos.demo_file`.

    The file has ``actions`` and ``obs``: ``policy``, ``critic`` where the dataset has the simulator's state, and
    ``points`` (T, K, C), float16, where it has clouds. Points are in the frame in which they were observed, else in
    that of the robot's base. Depth maps are not read. ``say`` is called with a line of progress.

    Raises:
        OSError: The folder is no such dataset.
        ValueError: The dataset lacks a feature.
    """
    from lerobot.datasets import LeRobotDataset  # pyright: ignore[reportMissingImports]

    dataset = LeRobotDataset(f"local/{folder.name}", root=folder)
    names = features_to_read(dataset.meta.features)
    extras = folder / EXTRAS
    recorded = json.loads(extras.read_text(encoding="utf-8")) if extras.is_file() else {}
    description = describe_read(recorded.get("description"), names, dataset.fps)

    table = dataset.hf_dataset.select_columns(names).with_format("numpy")
    bounds = zip(dataset.meta.episodes["dataset_from_index"], dataset.meta.episodes["dataset_to_index"], strict=True)
    draft = out.with_name(f".{out.name}.tmp")
    try:
        with h5py.File(draft, "w") as file:
            data = file.create_group("data")
            data.attrs["env_args"] = json.dumps({"task": recorded.get("task"), "description": description})
            for index, (first, end) in enumerate(bounds):
                frames = {name: np.stack(table[first:end][name]) for name in names}
                write_episode(data.create_group(f"demo_{index}"), frames, description)
            say(f"{len(data)} episodes read")
        draft.rename(out)
    finally:
        draft.unlink(missing_ok=True)


def features_to_read(features: Mapping[str, Any]) -> list[str]:
    """Return the names of the features to read; a ValueError names those that are missing."""
    missing = [name for name in list(VECTORS.values())[:2] if name not in features]
    if missing:
        raise ValueError(f"the dataset lacks {' and '.join(missing)}: it has {', '.join(features)}.")
    return [name for name in features if name in (*VECTORS.values(), "next.success") or name.startswith(CLOUD)]


def describe_read(recorded: dict[str, Any] | None, names: Container[str], frames_per_s: float) -> dict[str, Any]:
    """Return what is known of the episodes, as it was recorded but for older frames, which datasets lack.

    Without the feature that tells in which frame the points were observed, they stay in that of the robot's base.
    """
    if recorded is None:
        return {"output": {"rate_hz": frames_per_s}, "cloud": {"frame": "robot"}}
    if "cloud" in recorded and f"{CLOUD}frame" not in names:
        recorded["cloud"]["frame"] = "robot"
    for entry in recorded["inputs"]:
        newest = [part for part in entry.get("parts", ()) if part["steps_ago"] == 0]
        first = newest[0]["from"] if newest else 0
        entry["parts"] = [{**part, "from": part["from"] - first, "to": part["to"] - first} for part in newest]
    return recorded


def write_episode(demo: Any, frames: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> None:
    """Write the frames of an episode, features by name, each (T, ...)."""
    demo.attrs["num_samples"] = len(frames["action"])
    demo.attrs["success"] = bool(frames["next.success"][-1].all()) if "next.success" in frames else True
    for key, name in VECTORS.items():
        if name in frames:
            demo.create_dataset(key, data=frames[name].astype(np.float32), compression="gzip")
    if f"{CLOUD}xyz" in frames:
        points = _observed_points(frames, description["cloud"].get("channels", ("xyz",)))
        demo.create_dataset("obs/points", data=points.astype(np.float16), compression="gzip")


def _observed_points(frames: Mapping[str, np.ndarray], channels: Iterable[str]) -> np.ndarray:
    """Return clouds (T, K, C) in the frame in which they were observed; points beside the mask repeat the others."""
    frame = frames.get(f"{CLOUD}frame", np.eye(4)[None])
    values = {name: frames[CLOUD + name] for name in channels}
    values["xyz"] = values["xyz"] - frame[:, None, :3, 3]
    for name in values.keys() & {"xyz", "normals"}:
        values[name] = values[name] @ frame[:, :3, :3]
    points = np.concatenate(list(values.values()), axis=-1)

    for cloud, mask in zip(points, frames.get(f"{CLOUD}mask", ()), strict=False):
        mask = mask.astype(bool)
        distinct = np.flatnonzero(mask)
        if len(distinct):
            cloud[~mask] = cloud[np.resize(distinct, np.count_nonzero(~mask))]
    return points


def main() -> int:
    """Convert a file or a dataset; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="what scripts/demo.py recorded, or the folder of a LeRobotDataset v3")
    parser.add_argument("out", type=Path, help="a folder, which must not exist, or an HDF5 file")
    args = parser.parse_args()
    convert = read_lerobot_dataset if args.source.is_dir() else write_lerobot_dataset
    try:
        # A pipe would keep the lines back.
        convert(args.source, args.out, lambda line: print(line, flush=True))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
