# SPDX-License-Identifier: BSD-3-Clause
"""``policy.json``: inputs and outputs of an exported policy, and how its point cloud is made."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from isaaclab_pc.envs import PointCloudEnv
from isaaclab_pc.envs.quantities import action_parts, vector_quantities
from isaaclab_pc.export.exported_policy import output_of_state
from isaaclab_pc.sensors.realism.cfg import as_cfgs
from isaaclab_pc.sensors.scene_cameras import depth_limits, image_intrinsics, lens_coefficients, lens_of

_PIXELS = (
    "counted from the corner of the first pixel: calibrations of OpenCV and ROS count from its middle, so add 0.5 to "
    "their cx and cy"
)
_REMOVED = "pixels of these classes give no point; on a robot, a self-filter finds them"
_HISTORY = (
    "each input holds so many frames, one a step, the oldest first and the present one last; in the first step of an "
    "episode all are the present one"
)
_MEMORY = "zeros in the first step of an episode; later what the output was in the step before"
_ENV_FRAME = "the robot's base stands at robot.base_pos, robot.base_quat in it; z is up"


def describe_env(env: Any, robot: str) -> dict[str, Any]:
    """Describe what a policy of an unwrapped environment may see, and its actions: see :func:`describe_policy`."""
    spaces = env.single_observation_space.items()
    inputs = {name: torch.zeros(1, *space.shape) for name, space in spaces if name != "critic"}
    return describe_policy(env, inputs, env.single_action_space.shape[0], robot)


def describe_policy(env: Any, inputs: Mapping[str, torch.Tensor], num_actions: int, robot: str) -> dict[str, Any]:
    """Describe inputs and output of a policy as JSON values.

    Args:
        env: The gym environment, unwrapped.
        inputs: Its inputs by name, each (B, ...).
        num_actions: Size of an action, A.
        robot: The setting that chose the arm.

    Returns:
        ``inputs``, ``output`` and, for this package's tasks, ``history``, ``frames``, ``robot``, ``cameras`` and
        ``cloud``.
    """
    is_ours = isinstance(env, PointCloudEnv)
    content: dict[str, Any] = {
        "inputs": [
            {
                "name": name,
                "shape": ["batch", *value.shape[1:]],
                "dtype": "float32",
                **(_describe_group(env, name) if is_ours else {}),
            }
            for name, value in inputs.items()
        ],
        "output": {
            "name": "actions",
            "shape": ["batch", num_actions],
            "dtype": "float32",
            "rate_hz": 1.0 / env.step_dt,
        },
    }
    if not is_ours:
        return content

    content["output"] |= {"clip": [-1.0, 1.0], "parts": _slices([part.to_dict() for part in action_parts(env)])}
    content["history"] = {"length": env.cfg.history_length, "meaning": _HISTORY}
    content["frames"] = {"env": _ENV_FRAME, "tool centre": "robot.tcp_offset [m] along the z axis of robot.hand"}
    content["robot"] = {"name": robot, **_describe_robot(env)}
    sensors = [name for name in inputs if name in ("points", "depth")]
    if sensors:
        names = ["camera"] if env.point_cloud is None else list(env.point_cloud.cfg.cameras)
        content["cameras"] = {name: _describe_camera(env, name) for name in names}
    if "points" in sensors:
        content["cloud"] = _describe_cloud(env)
    return content


def describe_memory(state: Mapping[str, torch.Tensor]) -> list[dict[str, Any]]:
    """Describe a policy's memory: an input and an output for each part, after the other ones, in this order.

    ``state`` is the memory before the first step of an episode, by the names of the inputs, each (M, 1, H).
    """
    return [
        {
            "input": name,
            "output": output_of_state(name),
            "shape": [value.shape[0], "batch", value.shape[2]],
            "dtype": "float32",
            "meaning": _MEMORY,
        }
        for name, value in state.items()
    ]


def describe_sight(content: dict[str, Any], frames: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Add the least that was seen, by which a robot's side recognizes a covered lens and an empty cloud.

    Each camera gets ``least_seen``, the smallest share of an image's pixels that have a depth and are not removed, and
    ``median_depth``, the smallest and the largest median of an image [m]; the cloud gets ``least_points``, the fewest
    distinct points. ``frames`` are an episode's steps: :attr:`CloudRecorder.frame`, or ``depth_camera`` alone.
    """
    limits = [entry["max_depth"] for entry in content["inputs"] if "max_depth" in entry]
    for name, camera in content.get("cameras", {}).items():
        farthest = min([camera["miss_from"], *limits])
        shares, medians = [], []
        for frame in frames:
            depth = frame[f"depth_{name}"]
            has_depth = (depth > 0.0) & (depth <= farthest)
            shares.append(float((has_depth & ~frame.get(f"removed_{name}", np.zeros_like(has_depth))).mean()))
            if has_depth.any():
                medians.append(float(np.median(depth[has_depth])))

        camera["least_seen"] = min(shares)
        if medians:
            camera["median_depth"] = [min(medians), max(medians)]
    if "cloud" in content:
        content["cloud"]["least_points"] = min(int(frame["count"]) for frame in frames)


def _describe_group(env: PointCloudEnv, name: str) -> dict[str, Any]:
    if name == "policy":
        quantities = [quantity.to_dict() for quantity in vector_quantities(env)]
        steps_ago = reversed(range(env.cfg.history_length))
        return {"parts": _slices([{**part, "steps_ago": ago} for ago in steps_ago for part in quantities])}
    if name == "points":
        assert env.point_cloud is not None
        return {"unit": "m", "frame": env.point_cloud.cfg.frame, "meaning": "made as cloud says"}
    assert env.camera is not None
    return {
        "unit": "m",
        "camera": "camera",
        "min_depth": depth_limits(env.camera)[0],
        "max_depth": env.cfg.max_depth,
        "meaning": "distance to the image plane; 0 where there is none, up to min_depth and beyond max_depth",
    }


def _slices(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    result = []
    start = 0
    for part in parts:
        end = start + part["size"]
        result.append({"from": start, "to": end, **part})
        start = end
    return result


def _describe_robot(env: PointCloudEnv) -> dict[str, Any]:
    arm = env.cfg.scene.robot
    data = env.robot.data
    names = [*arm.arm_joints, *arm.finger_joints]
    ids = [*env.arm.joints.tolist(), *env.arm.fingers.tolist()]
    default = data.default_joint_pos.torch[0]
    limits = data.soft_joint_pos_limits.torch[0]
    return {
        "arm_joints": list(arm.arm_joints),
        "finger_joints": list(arm.finger_joints),
        "default_joint_pos": dict(zip(names, _numbers(default[ids]), strict=True)),
        "joint_limits": {name: _numbers(limits[index]) for name, index in zip(names, ids, strict=True)},
        "hand": arm.hand,
        "tcp_offset": arm.tcp_offset,
        "base_pos": _numbers(data.root_link_pos_w.torch[0] - env.scene.env_origins[0]),
        "base_quat": _numbers(data.root_link_quat_w.torch[0]),
    }


def _numbers(values: torch.Tensor) -> list[float]:
    """Return float32 numbers as JSON, without digits that they do not have."""
    # Not -0.0, which rounding leaves of small negative numbers.
    return [round(value, 6) + 0.0 for value in values.tolist()]


def _describe_camera(env: PointCloudEnv, name: str) -> dict[str, Any]:
    camera: Any = env.scene[name]
    height, width = camera.image_shape
    near, miss_from = depth_limits(camera)
    lens = lens_of(camera)
    below_env = camera.cfg.prim_path.removeprefix(f"{env.scene.env_regex_ns}/").split("/")
    return {
        "height": height,
        "width": width,
        "intrinsics": [_numbers(row) for row in image_intrinsics(camera)[0]],
        "pixels": _PIXELS,
        "distortion": None if lens is None else {"model": lens.model, **lens_coefficients(lens)},
        "mounted_on": below_env[-2] if len(below_env) > 1 else "env",
        "pos": list(camera.cfg.offset.pos),
        "quat": list(camera.cfg.offset.rot),
        "convention": camera.cfg.offset.convention,
        "near": near,
        "miss_from": miss_from,
    }


def _describe_cloud(env: PointCloudEnv) -> dict[str, Any]:
    sensor = env.point_cloud
    assert sensor is not None
    cfg = sensor.cfg
    realism: Any = as_cfgs(cfg.realism)
    realism_of: Any = cfg.realism_of if realism else {}
    return {
        "cameras": list(cfg.cameras),
        "num_points": cfg.num_points,
        "appended_points": sum(part.num_points for part in cfg.append),
        "channels": {name: [part.start, part.stop] for name, part in sensor.channels.items()},
        "sampler": cfg.sampler,
        "voxel_size": cfg.voxel_size,
        "frame": cfg.frame,
        "crop_frame": cfg.crop_frame or cfg.frame,
        "crop_lower": list(cfg.crop_lower),
        "crop_upper": list(cfg.crop_upper),
        "gripper_body": cfg.gripper_body,
        "gripper_offset": list(cfg.gripper_offset),
        "removed_classes": list(cfg.remove),
        "removed": _REMOVED,
        "rounded_to": cfg.dtype,
        "realism": [camera.to_dict() for camera in realism],
        "realism_of": {name: camera.to_dict() for name, camera in realism_of.items()},
    }
