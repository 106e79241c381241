# SPDX-License-Identifier: BSD-3-Clause
"""An export without a training: a small policy, what ``policy.json`` says of it, and a recording with its actions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from scipy.spatial.transform import Rotation

from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud

NUM_POINTS = 40
FRAMES = 4
SIZES = {"camera": (12, 16), "wrist_camera": (9, 12)}
LOWER = (-1.0, -1.0, 0.2)
UPPER = (1.0, 1.0, 2.0)
CAMERA_POS = (0.2, 0.0, 0.1)
CAMERA_QUAT = Rotation.from_euler("xyz", [20.0, -15.0, 10.0], degrees=True).as_quat()
WRIST_POS = (0.05, 0.0, 0.02)
TCP_OFFSET = (0.0, 0.0, 0.1)
QUANTITIES = {
    "arm_joint_pos": (2, "rad"),
    "tool_pos": (3, "m"),
    "tool_quat": (4, ""),
    "last_action": (3, ""),
    "goal_pos": (3, "m"),
}


def columns(name: str) -> slice:
    """Return the columns of a quantity in the input ``policy``."""
    ends = dict(zip(QUANTITIES, np.cumsum([size for size, _ in QUANTITIES.values()]).tolist(), strict=True))
    return slice(ends[name] - QUANTITIES[name][0], ends[name])


def write_export(folder: Path) -> Path:
    """Write a policy of two cameras whose action is the cloud's mean plus the goal; return the folder."""
    _write_policy(folder / "policy.onnx")
    content = {
        "format": 1,
        "inputs": [{"name": "policy", "parts": _parts()}, {"name": "points"}],
        "output": {"clip": [-1.0, 1.0], "rate_hz": 30.0},
        "robot": {
            "arm_joints": ["shoulder", "elbow"],
            "default_joint_pos": {"shoulder": 0.5, "elbow": -1.0},
            "joint_limits": {"shoulder": [-2.0, 2.0], "elbow": [-3.0, 0.0]},
        },
        "cameras": {
            "camera": {"mounted_on": "env", "pos": CAMERA_POS, "quat": CAMERA_QUAT.tolist(), **_image("camera")},
            "wrist_camera": {"mounted_on": "hand", "pos": WRIST_POS, "quat": [0, 0, 0, 1], **_image("wrist_camera")},
        },
        "cloud": {
            **{"cameras": list(SIZES), "num_points": NUM_POINTS, "appended_points": 0, "channels": {"xyz": [0, 3]}},
            **{"sampler": "random", "voxel_size": 0.01, "crop_lower": LOWER, "crop_upper": UPPER},
            **{"frame": "gripper", "crop_frame": "env", "gripper_body": "hand", "gripper_offset": TCP_OFFSET},
            **{"removed_classes": ["robot"], "rounded_to": "float16", "least_points": NUM_POINTS},
        },
        "history": {"length": 1},
        "memory": [],
    }
    (folder / "policy.json").write_text(json.dumps(content), encoding="utf-8")
    sample: dict[str, Any] = _frames(np.random.default_rng(0))
    sample["actions"] = sample["policy"][:, columns("goal_pos")] + _clouds(sample).points.float().mean(dim=1).numpy()
    np.savez(folder / "sample.npz", **sample)
    return folder


def _write_policy(path: Path) -> None:
    size = sum(size for size, _ in QUANTITIES.values())
    goal = helper.make_tensor("goal", TensorProto.INT64, [3], list(range(size))[columns("goal_pos")])
    nodes = [
        helper.make_node("ReduceMean", ["points"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Gather", ["policy", "goal"], ["goal_pos"], axis=1),
        helper.make_node("Add", ["mean", "goal_pos"], ["actions"]),
    ]
    vector = helper.make_tensor_value_info("policy", TensorProto.FLOAT, ["batch", size])
    points = helper.make_tensor_value_info("points", TensorProto.FLOAT, ["batch", NUM_POINTS, 3])
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph(nodes, "policy", [vector, points], [actions], [goal])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def _parts() -> list[dict]:
    parts = []
    for name, (size, unit) in QUANTITIES.items():
        where = columns(name)
        parts.append({"from": where.start, "to": where.stop, "name": name, "size": size, "unit": unit, "meaning": name})
    return parts


def _image(name: str) -> dict:
    height, width = SIZES[name]
    intrinsics = [[20.0, 0.0, width / 2], [0.0, 20.0, height / 2], [0.0, 0.0, 1.0]]
    shape = {"height": height, "width": width, "intrinsics": intrinsics}
    return {**shape, "convention": "ros", "miss_from": 5.0, "least_seen": 0.9, "median_depth": [0.9, 1.1]}


def _frames(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return frames of an arm that moves a little, before rough surfaces."""
    tool_pos = np.array([0.1, 0.2, 0.3]) + 0.01 * np.arange(FRAMES)[:, None]
    tool = Rotation.from_euler("z", 25.0 + np.arange(FRAMES)[:, None], degrees=True)
    vector = np.zeros((FRAMES, sum(size for size, _ in QUANTITIES.values())))
    vector[:, columns("arm_joint_pos")] = rng.uniform(-1.0, 0.9, (FRAMES, 2))
    vector[:, columns("tool_pos")] = tool_pos
    vector[:, columns("tool_quat")] = tool.as_quat()
    vector[:, columns("goal_pos")] = [0.1, -0.1, 0.2]

    arrays = {
        "policy": vector,
        **{"crop_pos": np.zeros((FRAMES, 3)), "crop_quat": np.tile([0.0, 0.0, 0.0, 1.0], (FRAMES, 1))},
        **{"frame_pos": tool_pos, "frame_quat": tool.as_quat()},
        "camera_pos_camera": np.tile(CAMERA_POS, (FRAMES, 1)),
        "camera_quat_camera": np.tile(CAMERA_QUAT, (FRAMES, 1)),
        "camera_pos_wrist_camera": tool_pos + tool.apply(np.subtract(WRIST_POS, TCP_OFFSET)),
        "camera_quat_wrist_camera": tool.as_quat(),
    }
    for name, size in SIZES.items():
        arrays[f"depth_{name}"] = rng.uniform(0.5, 1.5, (FRAMES, *size))
        arrays[f"intrinsics_{name}"] = np.tile(np.array(_image(name)["intrinsics"]), (FRAMES, 1, 1))
    recording = {name: array.astype(np.float32) for name, array in arrays.items()}
    for name, size in SIZES.items():
        recording[f"removed_{name}"] = rng.random((FRAMES, *size)) < 0.05
    return {**recording, "key": np.arange(FRAMES, dtype=np.int32)}


def _clouds(sample: dict[str, np.ndarray]) -> Cloud:
    tensors = {name: torch.from_numpy(array) for name, array in sample.items()}
    make_clouds = DepthToCloud(
        FRAMES, list(SIZES.values()), NUM_POINTS, crop_lower=LOWER, crop_upper=UPPER, far=5.0, dtype="float16"
    )

    def stacked(field: str) -> torch.Tensor:
        return torch.stack([tensors[f"{field}_{name}"] for name in SIZES], dim=1)

    return make_clouds(
        [tensors[f"depth_{name}"] for name in SIZES],
        stacked("intrinsics"),
        stacked("camera_pos"),
        stacked("camera_quat"),
        tensors["key"],
        frame_pos=tensors["crop_pos"],
        frame_quat=tensors["crop_quat"],
        output_pos=tensors["frame_pos"],
        output_quat=tensors["frame_quat"],
        labels=[tensors[f"removed_{name}"].int() for name in SIZES],
        removed=torch.tensor([False, True]),
    )
