# SPDX-License-Identifier: BSD-3-Clause
"""An exported policy on saved depth images: cloud, then action, without a simulator.

    python scripts/export.py run=pretrained task=lift
    python examples/deploy_onnx.py logs/pretrained/lift/export

Needs onnxruntime and, as examples/clouds_of_depth_images.py, torch, Warp, NumPy, lazy_loader and numba: no Isaac Lab.

The recording is the sample.npz that the export wrote, or one of your own with the same arrays, one row for each frame,
the frames of an episode from its start; with ``actions`` in it, those of the policy must be equal to them. What stands
in ``world`` may stand in any frame that does not move, such as the robot's base:

    policy                  proprioception of the frame, as policy.json says                            (F, P)
    depth_<camera>          distance to the image plane [m], 0 where there is none                      (F, H, W)
    removed_<camera>        bool; True where the robot is, or whatever else gives no point; optional    (F, H, W)
    intrinsics_<camera>     pinhole matrix [px], counted from the corner of the first pixel             (F, 3, 3)
    centers_<camera>        where a pinhole would see what each pixel sees [px], for all frames that of
                            the first one; optional: without it, images are taken as undistorted        (F, H, W, 2)
    camera_pos_<camera>     position in world [m]                                                       (F, 3)
    camera_quat_<camera>    orientation in world, (x, y, z, w), x right, y down, z forward              (F, 4)
    crop_pos, crop_quat     the frame that the crop is given in, in world [m], (x, y, z, w)             (F, 3), (F, 4)
    frame_pos, frame_quat   the frame of the points, in world [m], (x, y, z, w)                         (F, 3), (F, 4)
    key                     int32; equal keys choose equal pixels                                       (F,)

A policy of depth images takes ``policy`` and ``depth_camera`` alone. Of what points may carry beside their position,
this program knows the normals.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.features import estimate_normals

TOLERANCE = 1e-3
"""Largest difference from recorded actions. float16 rounds points, and another machine may round one the other way."""


def main() -> None:
    """Run the policy over a recording and compare its actions with the recorded ones."""
    given = _arguments()
    policy = json.loads((given.folder / "policy.json").read_text(encoding="utf-8"))
    if policy["format"] != 1:
        raise SystemExit(f"{given.folder}: policy.json has format {policy['format']}; this program reads 1.")
    recording = dict(np.load(given.recording or given.folder / "sample.npz"))
    session = onnxruntime.InferenceSession(given.folder / "policy.onnx", providers=["CPUExecutionProvider"])

    inputs = {entry["name"]: _input(entry, policy, recording) for entry in policy["inputs"]}
    actions = _act(session, inputs, policy["memory"])
    # What is sent to the robot; the scale and the meaning of each number stand in policy.json.
    commands = np.clip(actions, *policy["output"].get("clip", (-np.inf, np.inf)))
    for index, command in enumerate(commands):
        print(f"frame {index}: {np.array2string(command, precision=4, suppress_small=True)}")

    if "actions" in recording:
        difference = float(np.abs(actions - recording["actions"]).max())
        print(f"as recorded to {difference:.1e}, over {len(actions)} frames")
        if not difference <= TOLERANCE:
            raise SystemExit(f"the actions differ from the recorded ones by more than {TOLERANCE:g}.")


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
    if entry["name"] == "points":
        return _clouds(policy["cloud"], policy["cameras"], recording)
    if entry["name"] == "depth":
        depth = recording["depth_camera"]
        seen = (depth > entry.get("min_depth", 0.0)) & (depth <= entry["max_depth"])
        return np.where(seen, depth, 0.0)[:, None].astype(np.float32)
    return recording[entry["name"]].astype(np.float32)


def _clouds(cloud: dict[str, Any], cameras: dict[str, Any], recording: dict[str, np.ndarray]) -> np.ndarray:
    """Return the clouds that the policy reads, shape (F, K, 3), or with normals (F, K, 6), float32."""
    features = [name for name in cloud["channels"] if name != "xyz"]
    if features not in ([], ["normals"]) or cloud["appended_points"] > 0:
        raise SystemExit(
            f"this policy's points carry {features}, and {cloud['appended_points']} are appended; this program makes "
            "seen points with normals at most: add the rest to its _clouds()."
        )
    names = cloud["cameras"]
    frames = len(recording["key"])
    far = [cameras[name]["miss_from"] for name in names]
    operator = DepthToCloud(
        frames,
        [(cameras[name]["height"], cameras[name]["width"]) for name in names],
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
    depths = [_tensor(recording[f"depth_{name}"]) for name in names]
    tables = [_tensor(recording[f"centers_{name}"][0]) for name in names if f"centers_{name}" in recording]
    centers = tables or None
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
        keys=torch.from_numpy(recording["key"].astype(np.int32)),
        frame_pos=_tensor(recording["crop_pos"]),
        frame_quat=_tensor(recording["crop_quat"]),
        output_pos=frame_pos if moves else None,
        output_quat=frame_quat if moves else None,
        labels=[_removed(recording, name) for name in names],
        removed=torch.tensor([False, True]),
        centers=centers,
    )

    points = result.points
    if features:
        # Of the whole images: a neighbour that gives no point is a surface all the same.
        rays = ray_matrices(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
        normals = estimate_normals(depths, rays, result.pixels, far, centers)
        points = torch.cat([points, torch.where(result.count[:, None, None] > 0, normals, 0.0)], dim=-1)
    return points.to(getattr(torch, cloud["rounded_to"])).float().numpy()


def _removed(recording: dict[str, np.ndarray], name: str) -> torch.Tensor:
    """Return 1 at a camera's pixels that give no point and 0 elsewhere, shape (F, H, W), int32."""
    removed = recording.get(f"removed_{name}", np.zeros_like(recording[f"depth_{name}"]))
    return torch.from_numpy(removed.astype(np.int32))


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
