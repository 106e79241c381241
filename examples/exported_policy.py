# SPDX-License-Identifier: BSD-3-Clause
"""An exported policy and its inputs, for examples/deploy_onnx.py and robot_loop.py."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from read_recording import Recording

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.features import estimate_normals


class ExportedPolicy:
    """The policy of a folder that scripts/export.py wrote, with its memory and its point-cloud operator."""

    def __init__(self, folder: Path) -> None:
        """Load ``policy.onnx`` and ``policy.json``.

        Raises:
            ConfigError: A file is missing, damaged or of another export, or the policy reads more of a point than its
                position and normal.
        """
        self.folder = folder
        self.description, self.session = _load(folder)
        """The content of policy.json, and the network."""

        values = (*self.session.get_inputs(), *self.session.get_outputs())
        self.shapes: dict[str, list[Any]] = {value.name: value.shape for value in values}
        """Shapes of inputs and outputs by name, the batch first."""

        self.length: int = self.description.get("history", {"length": 1})["length"]
        """Frames that each input holds."""

        self._cloud: dict[str, Any] | None = self.description.get("cloud")
        self._operator: DepthToCloud | None = None
        if self._cloud is not None:
            _check_channels(self._cloud)
        self.reset()

    @property
    def reads_clouds(self) -> bool:
        """Whether an input is a point cloud of this package."""
        return self._cloud is not None

    def reset(self) -> None:
        """Start an episode: forget what a recurrent policy remembers."""
        self._memory = {
            entry["input"]: np.zeros([1 if size == "batch" else size for size in entry["shape"]], np.float32)
            for entry in self.description["memory"]
        }

    def act(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return the actions in all frames, shape (F, A), not clipped; a memory goes on from frame to frame.

        ``inputs`` are those of policy.json by name, each (F, ...), float32, with their history.
        """
        if not self._memory:
            return np.asarray(self.session.run(["actions"], inputs)[0])

        outputs = ["actions", *(entry["output"] for entry in self.description["memory"])]
        actions = []
        for frame in range(len(next(iter(inputs.values())))):
            seen = {name: value[frame : frame + 1] for name, value in inputs.items()}
            action, *after = self.session.run(outputs, {**seen, **self._memory})
            self._memory = dict(zip(self._memory, map(np.asarray, after), strict=True))
            actions.append(action)
        return np.concatenate(actions)

    def clip(self, actions: np.ndarray) -> np.ndarray:
        """Clip actions to the limits of the simulator."""
        return np.clip(actions, *self.description["output"].get("clip", (-np.inf, np.inf)))

    def frames(self, recording: Recording, points: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return each input without its history, (F, ...), float32, of a checked recording.

        ``points`` are its clouds where they were made before.
        """
        return {entry["name"]: self._frames(entry, recording, points) for entry in self.description["inputs"]}

    def clouds(self, recording: Recording) -> tuple[np.ndarray, np.ndarray]:
        """Return clouds of a checked recording, (F, K, 3), with normals (F, K, 6), and their distinct points, (F,)."""
        cloud, cameras = self._cloud, self.description["cameras"]
        assert cloud is not None
        names = cloud["cameras"]
        depths = [_tensor(recording[f"depth_{name}"]) for name in names]
        far = [cameras[name]["miss_from"] for name in names]
        operator = self._operator_for(depths, far)

        # Where both frames are the same, the points are in the crop's.
        moves = cloud["frame"] != cloud["crop_frame"]
        centers = [_tensor(recording[f"centers_{name}"][0]) for name in names if f"centers_{name}" in recording] or None
        intrinsics = _of_cameras(recording, "intrinsics", names)
        camera_pos = _of_cameras(recording, "camera_pos", names)
        camera_quat = _of_cameras(recording, "camera_quat", names)
        frame_pos = _tensor(recording["frame_pos"])
        frame_quat = _tensor(recording["frame_quat"])
        result = operator(
            depths,
            intrinsics,
            camera_pos,
            camera_quat,
            keys=torch.from_numpy(recording["key"]),
            frame_pos=_tensor(recording["crop_pos"]),
            frame_quat=_tensor(recording["crop_quat"]),
            output_pos=frame_pos if moves else None,
            output_quat=frame_quat if moves else None,
            labels=[_removed(recording, name) for name in names],
            centers=centers,
        )

        points = result.points
        if "normals" in cloud["channels"]:
            # Of the whole images: a neighbour that gives no point is a surface all the same.
            rays = ray_matrices(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
            normals = estimate_normals(depths, rays, result.pixels, far, centers)
            points = torch.cat([points, torch.where(result.count[:, None, None] > 0, normals, 0.0)], dim=-1)
        # The next call overwrites the count.
        return points.to(getattr(torch, cloud["rounded_to"])).float().numpy(), result.count.numpy().copy()

    def _operator_for(self, depths: list[torch.Tensor], far: list[float]) -> DepthToCloud:
        """Return the operator for images of these sizes; on a robot they are always the same."""
        cloud, cameras = self._cloud, self.description["cameras"]
        assert cloud is not None
        sizes = [(depth.shape[1], depth.shape[2]) for depth in depths]
        operator = self._operator
        if operator is None or operator.num_envs != len(depths[0]) or operator.image_sizes != sizes:
            operator = self._operator = DepthToCloud(
                len(depths[0]),
                sizes,
                cloud["num_points"],
                sampler=cloud["sampler"],
                crop_lower=cloud["crop_lower"],
                crop_upper=cloud["crop_upper"],
                voxel_size=cloud["voxel_size"],
                near=[cameras[name].get("near", 0.0) for name in cloud["cameras"]],
                far=far,
                dtype="float32",
            )
        return operator

    def _frames(self, entry: dict[str, Any], recording: Recording, points: np.ndarray | None) -> np.ndarray:
        if entry["name"] == "points" and self.reads_clouds:
            return self.clouds(recording)[0] if points is None else points
        if "max_depth" in entry:
            depth = recording["depth_camera"]
            seen = (depth > entry.get("min_depth", 0.0)) & (depth <= entry["max_depth"])
            return np.where(seen, depth, 0.0)[:, None].astype(np.float32)
        return recording[entry["name"]].astype(np.float32)


def side_by_side(frames: np.ndarray) -> np.ndarray:
    """Return inputs with a history, the oldest frame first: of vectors (F, H, P) as (F, H * P), of others as given."""
    return frames.reshape(len(frames), -1) if frames.ndim == 3 else frames


def _load(folder: Path) -> tuple[dict[str, Any], onnxruntime.InferenceSession]:
    description = folder / "policy.json"
    try:
        policy = json.loads(description.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{description}: not what scripts/export.py wrote: {error}") from error
    if not isinstance(policy, dict) or not {"format", "inputs", "output", "memory"} <= policy.keys():
        raise ConfigError(
            f"{description}: not what scripts/export.py wrote: it has no format, inputs, output or memory."
        )
    if policy["format"] != 1:
        raise ConfigError(f"{description}: has format {policy['format']}; this program reads 1.")

    path = folder / "policy.onnx"
    try:
        content = path.read_bytes()
        # Networks of this size are slower on more threads, which would spin for the next action.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    # onnxruntime's errors have no class in common.
    except Exception as error:
        raise ConfigError(f"{path}: not what scripts/export.py wrote: {' '.join(str(error).split())}") from error
    described = [entry["name"] for entry in policy["inputs"]] + [entry["input"] for entry in policy["memory"]]
    is_same = policy.get("files", {}).get(path.name) in (None, hashlib.sha256(content).hexdigest())
    if not is_same or {value.name for value in session.get_inputs()} != set(described):
        raise ConfigError(f"{path}: is not the policy that {description} describes: take both of one export.")
    return policy, session


def _check_channels(cloud: dict[str, Any]) -> None:
    features = [name for name in cloud["channels"] if name != "xyz"]
    if features not in ([], ["normals"]) or cloud["appended_points"] > 0:
        raise ConfigError(
            f"this policy's points carry {features}, and {cloud['appended_points']} are appended; this program makes "
            "seen points with normals at most: add the rest to clouds() in examples/exported_policy.py."
        )


def _removed(recording: Recording, name: str) -> torch.Tensor:
    """Return True at a camera's pixels that give no point, shape (F, H, W)."""
    depth = recording[f"depth_{name}"]
    return torch.from_numpy(recording.get(f"removed_{name}", np.zeros(depth.shape, dtype=bool)))


def _of_cameras(recording: Recording, field: str, names: list[str]) -> torch.Tensor:
    """Return a field of all cameras, shape (F, C, ...)."""
    return torch.stack([_tensor(recording[f"{field}_{name}"]) for name in names], dim=1)


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
