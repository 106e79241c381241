# SPDX-License-Identifier: BSD-3-Clause
"""An exported policy on saved depth images: cloud, then action, without a simulator.

    python scripts/export.py run=pretrained task=lift
    python examples/deploy_onnx.py logs/pretrained/lift/export

Needs onnxruntime and, as examples/clouds_of_depth_images.py, torch, Warp, NumPy, lazy_loader and numba: no Isaac Lab.

The recording is the sample.npz that the export wrote, or one of your own with the same arrays, one row for each frame,
the frames of an episode from its start; with ``actions`` in it, those of the policy must be equal to them. What stands
in ``world`` may stand in any frame that does not move, such as the robot's base. Images of clouds may have any size,
with the intrinsics of that size:

    policy                  proprioception of the frame, as policy.json says                            (F, P)
    depth_<camera>          distance to the image plane [m]; 0, NaN or infinity where there is none     (F, H, W)
    removed_<camera>        not 0 where the robot is, or whatever else gives no point; optional         (F, H, W)
    intrinsics_<camera>     pinhole matrix [px], counted from the corner of the first pixel             (F, 3, 3)
    centers_<camera>        where a pinhole would see what each pixel sees [px], for all frames that of
                            the first one; optional: without it, images are taken as undistorted        (F, H, W, 2)
    camera_pos_<camera>     position in world [m]                                                       (F, 3)
    camera_quat_<camera>    orientation in world, (x, y, z, w), x right, y down, z forward              (F, 4)
    crop_pos, crop_quat     the frame that the crop is given in, in world [m], (x, y, z, w)             (F, 3), (F, 4)
    frame_pos, frame_quat   the frame of the points, in world [m], (x, y, z, w)                         (F, 3), (F, 4)
    key                     int32; equal keys choose equal pixels; optional, the frame's number         (F,)

A policy of depth images takes ``policy`` and ``depth_camera`` alone, in the size that it was trained with. Of what
points may carry beside their position, this program knows the normals.

Before the policy acts, examples/read_recording.py and check_recording.py check all frames. Exit codes: 0; 1 where the
actions are not those recorded; 2 where the policy cannot act, as a file or a frame is not what it has to be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from check_recording import check_frames, find_doubts
from read_recording import load_recording, refuse_frames

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.features import estimate_normals

TOLERANCE = 1e-3
"""Largest difference from recorded actions. float16 rounds points, and another machine may round one the other way."""


def main() -> None:
    """Run the policy over a recording and compare its actions with the recorded ones."""
    given = _arguments()
    try:
        _run(given.folder, given.recording or given.folder / "sample.npz")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def _run(folder: Path, path: Path) -> None:
    policy, session = _load_policy(folder)
    shapes = {value.name: value.shape for value in (*session.get_inputs(), *session.get_outputs())}
    recording = load_recording(path, policy, shapes)
    cloud = policy.get("cloud")
    check_frames(policy, recording, cloud and (lambda given: _clouds(cloud, policy["cameras"], given)[1]))

    inputs = {entry["name"]: _input(entry, policy, recording) for entry in policy["inputs"]}
    actions = _act(session, inputs, policy["memory"])
    refuse_frames(~np.isfinite(actions).all(axis=1), "the policy's action is NaN or infinite")
    for doubt in find_doubts(policy, recording):
        print(f"warning: {doubt}", file=sys.stderr)

    # What is sent to the robot; the scale and the meaning of each number stand in policy.json.
    commands = np.clip(actions, *policy["output"].get("clip", (-np.inf, np.inf)))
    for index, command in enumerate(commands):
        print(f"frame {index}: {np.array2string(command, precision=4, suppress_small=True)}")

    if "actions" in recording:
        difference = float(np.abs(actions - recording["actions"]).max())
        print(f"as recorded to {difference:.1e}, over {len(actions)} frames")
        if not difference <= TOLERANCE:
            raise SystemExit(f"the actions differ from the recorded ones by more than {TOLERANCE:g}.")


def _load_policy(folder: Path) -> tuple[dict[str, Any], onnxruntime.InferenceSession]:
    """Return what policy.json says, and the policy itself."""
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
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    # onnxruntime's errors have no class in common.
    except Exception as error:
        raise ConfigError(f"{path}: not what scripts/export.py wrote: {' '.join(str(error).split())}") from error
    described = [entry["name"] for entry in policy["inputs"]] + [entry["input"] for entry in policy["memory"]]
    is_same = policy.get("files", {}).get(path.name) in (None, hashlib.sha256(content).hexdigest())
    if not is_same or {value.name for value in session.get_inputs()} != set(described):
        raise ConfigError(f"{path}: is not the policy that {description} describes: take both of one export.")
    return policy, session


def _act(
    session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray], memory: list[dict[str, Any]]
) -> np.ndarray:
    """Return the actions in all frames, shape (F, A); a policy with a memory sees them one after the other."""
    if not memory:
        return np.asarray(session.run(["actions"], inputs)[0])

    # What it remembers at the start of an episode: nothing. Do the same whenever an episode begins.
    state = {
        entry["input"]: np.zeros([1 if size == "batch" else size for size in entry["shape"]], np.float32)
        for entry in memory
    }
    outputs = ["actions", *(entry["output"] for entry in memory)]
    actions = []
    for frame in range(len(next(iter(inputs.values())))):
        seen = {name: value[frame : frame + 1] for name, value in inputs.items()}
        action, *after = session.run(outputs, {**seen, **state})
        state = dict(zip(state, after, strict=True))
        actions.append(action)
    return np.concatenate(actions)


def _input(entry: dict[str, Any], policy: dict[str, Any], recording: dict[str, np.ndarray]) -> np.ndarray:
    """Return one of the policy's inputs, shape (F, ...), float32."""
    frames = _frames(entry, policy, recording)
    length = policy.get("history", {"length": 1})["length"]
    if length == 1:
        return frames

    # The oldest one first. What was before an episode is its first frame.
    index = np.arange(len(frames))[:, None] + np.arange(1 - length, 1)
    stacked = frames[index.clip(min=0)]
    return stacked.reshape(len(frames), -1) if frames.ndim == 2 else stacked


def _frames(entry: dict[str, Any], policy: dict[str, Any], recording: dict[str, np.ndarray]) -> np.ndarray:
    """Return what an input holds of each frame, shape (F, ...), float32."""
    if entry["name"] == "points" and "cloud" in policy:
        return _clouds(policy["cloud"], policy["cameras"], recording)[0]
    if "max_depth" in entry:
        depth = recording["depth_camera"]
        seen = (depth > entry.get("min_depth", 0.0)) & (depth <= entry["max_depth"])
        return np.where(seen, depth, 0.0)[:, None].astype(np.float32)
    return recording[entry["name"]].astype(np.float32)


def _clouds(
    cloud: dict[str, Any], cameras: dict[str, Any], recording: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the clouds that the policy reads, shape (F, K, 3) or with normals (F, K, 6), and their distinct points."""
    features = [name for name in cloud["channels"] if name != "xyz"]
    if features not in ([], ["normals"]) or cloud["appended_points"] > 0:
        raise ConfigError(
            f"this policy's points carry {features}, and {cloud['appended_points']} are appended; this program makes "
            "seen points with normals at most: add the rest to its _clouds()."
        )
    names = cloud["cameras"]
    depths = [_tensor(recording[f"depth_{name}"]) for name in names]
    far = [cameras[name]["miss_from"] for name in names]
    operator = DepthToCloud(
        len(depths[0]),
        [(depth.shape[1], depth.shape[2]) for depth in depths],
        cloud["num_points"],
        sampler=cloud["sampler"],
        crop_lower=cloud["crop_lower"],
        crop_upper=cloud["crop_upper"],
        voxel_size=cloud["voxel_size"],
        near=[cameras[name].get("near", 0.0) for name in names],
        far=far,
        dtype="float32",
    )

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
    if features:
        # Of the whole images: a neighbour that gives no point is a surface all the same.
        rays = ray_matrices(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
        normals = estimate_normals(depths, rays, result.pixels, far, centers)
        points = torch.cat([points, torch.where(result.count[:, None, None] > 0, normals, 0.0)], dim=-1)
    return points.to(getattr(torch, cloud["rounded_to"])).float().numpy(), result.count.numpy()


def _removed(recording: dict[str, np.ndarray], name: str) -> torch.Tensor:
    """Return True at a camera's pixels that give no point, shape (F, H, W)."""
    depth = recording[f"depth_{name}"]
    return torch.from_numpy(recording.get(f"removed_{name}", np.zeros(depth.shape, dtype=bool)))


def _of_cameras(recording: dict[str, np.ndarray], field: str, names: list[str]) -> torch.Tensor:
    """Return a field of all cameras, shape (F, C, ...)."""
    return torch.stack([_tensor(recording[f"{field}_{name}"]) for name in names], dim=1)


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what scripts/export.py wrote")
    parser.add_argument("recording", type=Path, nargs="?", help="(default: sample.npz in that folder)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
