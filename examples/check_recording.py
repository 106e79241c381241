# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a robot's frames before an exported policy acts on them; examples/deploy_onnx.py begins with them.

A policy always answers: for a covered lens, for millimetres or for a quaternion in another order, its action looks like
any other. examples/robot_loop.py checks each frame of a robot, as a recording of one frame. The limits come from the
export's policy.json and are wide: what passes them may still be inexact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from read_recording import FRAMES, Recording, frames_text, refuse_frames

from isaaclab_pc.errors import ConfigError

FARTHEST = 0.5
"""Largest distance of a camera from where it was in training, and of the frame gripper from the tool [m]."""

MOST_TURNED = 45.0
"""Largest angle between the same [degrees]."""

LARGEST_FACTOR = 10.0
"""Largest factor between the median of an image's depths and those in training."""

LARGEST = {"m": 3.0, "rad": 4.0 * math.pi, "rad/s": 2.0, "m/s": 1.0}
"""Largest numbers of the input ``policy``, by unit; it holds a tenth of velocities."""

POSITIONS = ("camera_pos_", "crop_pos", "frame_pos")
QUATERNIONS = ("camera_quat_", "crop_quat", "frame_quat")

Check = Callable[[Recording], None]


def check_frames(
    policy: dict[str, Any], recording: Recording, count_points: Callable[[Recording], np.ndarray] | None
) -> None:
    """Check that a policy can act on what a recording says.

    Args:
        policy: What stands in policy.json.
        recording: What :func:`read_recording.load_recording` returned.
        count_points: Counts the distinct points of each frame's cloud, shape (F,); None where the policy reads none.

    Raises:
        ConfigError: A frame is empty, or holds a number that no sound sensor or robot gives. The message names the
            frames, and the unit or the order of numbers that would explain it.
    """
    checks: list[Check] = [_check_quaternions, lambda given: _check_vector(policy, given)]
    cameras = [name.removeprefix("depth_") for name in recording if name.startswith("depth_")]
    for name in cameras:
        camera = policy.get("cameras", {}).get(name, {})
        if f"intrinsics_{name}" in recording:
            checks.append(lambda given, name=name, camera=camera: _check_intrinsics(name, camera, given))
        checks.append(lambda given, name=name, camera=camera: _check_seen(name, camera, policy, given))
        checks.append(lambda given, name=name, camera=camera: _check_scale(name, camera, given))
    if count_points is not None:
        posed = [name.removeprefix("camera_pos_") for name in recording if name.startswith("camera_pos_")]
        checks.append(lambda given: _check_poses(policy, posed, given))
        checks.append(lambda given: _check_points(policy["cloud"].get("least_points", 1), count_points(given)))

    for check in checks:
        try:
            check(recording)
        except ConfigError as error:
            raise ConfigError(f"{error}{_explain(policy, check, checks, recording)}") from error


def find_doubts(policy: dict[str, Any], recording: Recording) -> list[str]:
    """Return what is odd about a recording and may be meant: images that stand still, and robots that are not removed.

    Args:
        policy: What stands in policy.json.
        recording: What :func:`read_recording.load_recording` returned.
    """
    doubts = []
    removed = policy.get("cloud", {}).get("removed_classes")
    for name in [name.removeprefix("depth_") for name in recording if name.startswith("depth_")]:
        if removed and f"removed_{name}" not in recording:
            doubts.append(f"there is no removed_{name}: the policy has never seen {' and '.join(removed)}.")
        image = np.nan_to_num(recording[f"depth_{name}"])
        stands = [False, *(np.array_equal(before, after) for before, after in pairwise(image))]
        # A slow camera gives an image for two steps.
        stands = np.array(stands) & np.roll(stands, 1)
        if stands.any() and "actions" not in recording:
            doubts.append(f"{frames_text(stands)}: depth_{name} is the same image as before; has the camera stopped?")
    return doubts


# What the numbers say.


def _check_quaternions(recording: Recording) -> None:
    for name in recording:
        if name.startswith(QUATERNIONS):
            _refuse_lengths(recording[name], name)


def _refuse_lengths(quat: np.ndarray, name: str) -> None:
    length = np.linalg.norm(quat, axis=-1)
    worst = length[np.abs(length - 1.0).argmax()]
    refuse_frames(np.abs(length - 1.0) > 0.01, f"{name} has the length {worst:.3g}, not 1")


def _check_vector(policy: dict[str, Any], recording: Recording) -> None:
    """Check the robot's state, part by part; what it is made of is known for this package's tasks."""
    for part in _parts(policy):
        value = _columns(recording, part)
        # The parts of all frames follow each other, and a recording has one frame's columns.
        if value.shape[1] < part["size"]:
            return
        what = f"policy[:, {part['from']}:{part['to']}], {part['name']} ({part['meaning']})"
        if part["name"].endswith("_quat"):
            _refuse_lengths(value, what)
            continue

        lower, upper = _limits(part, policy)
        outside = (value < lower) | (value > upper)
        if outside.any():
            frame, column = np.argwhere(outside)[0]
            lowest, highest = (np.broadcast_to(limit, value.shape[1])[column] for limit in (lower, upper))
            hint = {"rad": " (in degrees?)", "rad/s": " (in degrees?)", "m": " (in millimetres?)"}.get(part["unit"], "")
            number = f"{value[frame, column]:.4g} {part['unit']}".rstrip()
            refuse_frames(outside.any(axis=1), f"{what} is {number}, not from {lowest:.4g} to {highest:.4g}{hint}")


def _parts(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the input ``policy``; there are none where the export does not know them."""
    return next((entry.get("parts", []) for entry in policy["inputs"] if entry["name"] == "policy"), [])


def _columns(recording: Recording, part: dict[str, Any]) -> np.ndarray:
    return recording["policy"][:, part["from"] : part["to"]]


def _limits(part: dict[str, Any], policy: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest that each number of a part can be, a little more for joints."""
    if part["name"] in ("arm_joint_pos", "finger_joint_pos"):
        robot = policy["robot"]
        joints = robot[part["name"].replace("_joint_pos", "_joints")]
        limits = np.array([robot["joint_limits"][joint] for joint in joints])
        default = np.array([robot["default_joint_pos"][joint] for joint in joints])
        margin = 0.1 * (limits[:, 1] - limits[:, 0])
        return limits[:, 0] - default - margin, limits[:, 1] - default + margin
    if part["name"] == "last_action":
        lowest, highest = policy["output"].get("clip", (-np.inf, np.inf))
        return np.array(lowest - 1e-3), np.array(highest + 1e-3)
    largest = LARGEST.get(part["unit"], np.inf)
    return np.array(-largest), np.array(largest)


def _check_intrinsics(name: str, camera: dict[str, Any], recording: Recording) -> None:
    matrix = recording[f"intrinsics_{name}"]
    height, width = recording[f"depth_{name}"].shape[1:]
    array = f"intrinsics_{name}"
    fx, fy, cx, cy = matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 0, 2], matrix[:, 1, 2]
    pinhole = np.zeros_like(matrix)
    pinhole[:, [0, 1, 0, 1, 2], [0, 1, 2, 2, 2]] = np.stack([fx, fy, cx, cy, np.ones_like(fx)], axis=1)
    is_pinhole = (np.abs(matrix - pinhole) < 1e-3).all(axis=(1, 2)) & (fx > 0) & (fy > 0)
    refuse_frames(~is_pinhole, f"{array} is not [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] with fx, fy > 0 [px]")

    # From 5 to 150 degrees.
    fields = (width / fx, height / fy)
    refuse_frames(
        np.any([(field < 0.09) | (field > 7.5) for field in fields], axis=0),
        f"{array} has a focal length of {fx[0]:.4g} px, which is not of {width} x {height} px, the size of "
        f"depth_{name}: scale the matrix as the image",
    )
    # Calibrations of another resolution, for which the middle is elsewhere.
    trained = np.array(camera.get("intrinsics", [[0, 0, width / 2], [0, 0, height / 2]]))
    middle = (trained[0, 2] / camera.get("width", width), trained[1, 2] / camera.get("height", height))
    away = np.maximum(np.abs(cx / width - middle[0]), np.abs(cy / height - middle[1]))
    refuse_frames(
        away > 0.15,
        f"{array} has its principal point at ({cx[0]:.4g}, {cy[0]:.4g}) px, which is not near the middle of {width} x "
        f"{height} px, the size of depth_{name}: scale the matrix as the image, and do not crop that on one side",
    )


def _check_seen(name: str, camera: dict[str, Any], policy: dict[str, Any], recording: Recording) -> None:
    """Check that a camera sees a tenth of the pixels that it saw in the simulator at least."""
    depth = recording[f"depth_{name}"]
    removed = recording.get(f"removed_{name}", np.zeros(depth.shape, dtype=bool))
    farthest = min([camera.get("miss_from", np.inf), *(e["max_depth"] for e in policy["inputs"] if "max_depth" in e)])
    share = ((depth > 0.0) & (depth <= farthest) & ~removed).mean(axis=(1, 2))
    least = camera.get("least_seen", 0.01)
    bad = share < 0.1 * least
    if len(share) > 1 and "median_depth" in camera and "actions" not in recording:
        # Single images may have been empty in the simulator, but not all.
        bad |= share.max() == 0.0
    if not bad.any():
        return

    values = depth[bad][np.isfinite(depth[bad]) & (depth[bad] > 0.0)]
    found = f"values are from {values.min():.4g} to {values.max():.4g}" if len(values) else "no value is above 0"
    refuse_frames(
        bad,
        f"depth_{name} is empty: {share.min():.1%} of its pixels are up to {farthest:g} m away and not removed, in "
        f"training at least {least:.1%}; {found}, and removed_{name} removes {removed[bad].mean():.0%}",
    )


def _check_scale(name: str, camera: dict[str, Any], recording: Recording) -> None:
    """Check that depths are not of another order of magnitude than in the simulator."""
    orders = _orders(camera, recording[f"depth_{name}"])
    factor = np.exp(orders[np.abs(orders).argmax()])
    what = f"depth_{name} has medians {factor:.2g} times those of training"
    refuse_frames(np.abs(orders) > math.log(LARGEST_FACTOR), what)


def _orders(camera: dict[str, Any], depth: np.ndarray) -> np.ndarray:
    """Return the logarithm of the factor by which each image's median is outside of those in the simulator, (F,)."""
    values = [image[np.isfinite(image) & (image > 0.0)] for image in depth]
    if "median_depth" not in camera:
        return np.zeros(len(depth))
    medians = np.array([np.median(value) if len(value) else np.nan for value in values])
    outside = np.log(medians) - np.log(np.clip(medians, *camera["median_depth"]))
    return np.nan_to_num(outside)


def _check_points(least: int, counts: np.ndarray) -> None:
    """Check that clouds are not empty, if they were not in the simulator."""
    refuse_frames(counts < max(min(1, least), least // 10), "the cloud is empty: no pixel lies in the crop")


def _check_poses(policy: dict[str, Any], cameras: list[str], recording: Recording) -> None:
    """Check that cameras and tool are about where they were in the simulator, as far as the recording tells."""
    poses = _poses(policy, recording)
    cloud = policy["cloud"]
    for name in cameras:
        camera = policy["cameras"][name]
        mounted = {"env": "env", cloud.get("gripper_body"): "gripper"}.get(camera.get("mounted_on"))
        if mounted not in poses or camera.get("convention") != "ros":
            continue
        pos = np.array(camera["pos"]) - (cloud["gripper_offset"] if mounted == "gripper" else 0.0)
        where = f"where the policy was trained with this camera, on {camera['mounted_on']}"
        what = f"camera_pos_{name} and camera_quat_{name}"
        _refuse_far(what, _pose(recording, name), poses[mounted], pos, camera["quat"], where)

    # Of several frames' parts, the first ones are a recording's columns.
    parts = {part["name"]: part for part in reversed(_parts(policy))}
    if {"env", "gripper"} <= poses.keys() and {"tool_pos", "tool_quat"} <= parts.keys():
        pos, quat = (_columns(recording, parts[name]) for name in ("tool_pos", "tool_quat"))
        where = "tool_pos and tool_quat of policy"
        _refuse_far("frame_pos and frame_quat", poses["gripper"], poses["env"], pos, quat, where)


Pose = tuple[np.ndarray, np.ndarray]
"""Positions [m], shape (F, 3), and rotation matrices, shape (F, 3, 3)."""


def _poses(policy: dict[str, Any], recording: Recording) -> dict[str, Pose]:
    """Return where the frames are that a recording tells, in its world."""
    cloud = policy["cloud"]
    # The crop's last: where both are the same frame, its pose is what counts.
    names = (cloud["frame"], cloud["crop_frame"])
    poses = {name: _pose(recording, kind) for name, kind in zip(names, FRAMES, strict=True)}
    robot = policy.get("robot", {})
    if "robot" in poses and "base_pos" in robot:
        pos, turn = poses["robot"]
        turn = turn @ _rotation(np.array(robot["base_quat"])).T
        poses.setdefault("env", (pos - turn @ robot["base_pos"], turn))
    return poses


def _pose(recording: Recording, kind: str) -> Pose:
    pos, quat = (f"{kind}_pos", f"{kind}_quat") if kind in FRAMES else (f"camera_pos_{kind}", f"camera_quat_{kind}")
    return recording[pos], _rotation(recording[quat])


def _refuse_far(what: str, pose: Pose, frame: Pose, pos: Any, quat: Any, where: str) -> None:
    """Refuse poses that are not about at a place in a frame, each (3,) and (4,) or with frames before it."""
    inverse = np.swapaxes(frame[1], -1, -2)
    away = np.linalg.norm((inverse @ (pose[0] - frame[0])[..., None])[..., 0] - pos, axis=-1)
    difference = np.swapaxes(inverse @ pose[1], -1, -2) @ _rotation(np.asarray(quat))
    turned = np.degrees(np.arccos(np.clip((np.trace(difference, axis1=-2, axis2=-1) - 1.0) / 2.0, -1.0, 1.0)))
    refuse_frames(
        (away > FARTHEST) | (turned > MOST_TURNED),
        f"{what} are {away.max():.2f} m and {turned.max():.0f} degrees from {where}; at most {FARTHEST:g} m and "
        f"{MOST_TURNED:g} degrees are sound",
    )


def _rotation(quat: np.ndarray) -> np.ndarray:
    """Return the matrices of quaternions (x, y, z, w), shape (..., 3, 3)."""
    length = np.linalg.norm(quat, axis=-1, keepdims=True)
    x, y, z, w = np.moveaxis(quat / np.where(length > 0.0, length, 1.0), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


# What may be behind it.


def _explain(policy: dict[str, Any], failed: Check, checks: list[Check], recording: Recording) -> str:
    """Name the usual mistake without which all checks would have passed, or at least the one that failed."""
    for wanted, words in ((checks, "All would be right"), ([failed], "This alone would be right")):
        behind = [
            (_strangeness(policy, undone), mistake)
            for mistake, undone in _mistakes(recording)
            if all(_passes(check, undone) for check in wanted)
        ]
        if behind:
            # Of several units that would do, the one whose depths are most like those of training.
            return f" {words} if {min(behind, key=lambda item: item[0])[1]}."
    return ""


def _strangeness(policy: dict[str, Any], recording: Recording) -> float:
    cameras = policy.get("cameras", {})
    images = {name: recording[f"depth_{name}"] for name in cameras if f"depth_{name}" in recording}
    return round(sum(float(np.abs(_orders(cameras[name], image)).mean()) for name, image in images.items()), 3)


def _passes(check: Check, recording: Recording) -> bool:
    try:
        check(recording)
    except ConfigError:
        return False
    return True


def _mistakes(recording: Recording) -> Iterator[tuple[str, Recording]]:
    """Yield mistakes that are often made, and the recording without them."""
    kinds: list[tuple[str | tuple[str, ...], str, Callable[[np.ndarray], np.ndarray]]] = [
        ("depth_", "were in millimetres: multiply by 0.001", lambda value: value * 1e-3),
        ("depth_", "were in units of 0.1 mm: multiply by 0.0001", lambda value: value * 1e-4),
        ("depth_", "were in centimetres: multiply by 0.01", lambda value: value * 1e-2),
        (QUATERNIONS, "were (w, x, y, z): give (x, y, z, w)", lambda value: np.roll(value, -1, axis=-1)),
        ("camera_quat_", "were of axes x right, y up, z backward: turn them about x by 180 degrees", _turned_about_x),
        (POSITIONS, "were in millimetres: multiply by 0.001", lambda value: value * 1e-3),
        (POSITIONS, "were in centimetres: multiply by 0.01", lambda value: value * 1e-2),
        ("removed_", "were inverted: 0 is what gives points", lambda value: value.all() | ~value),
        ("removed_", "were left out", np.zeros_like),
    ]
    for kind, mistake, undo in kinds:
        names = [name for name in recording if name.startswith(kind)]
        # One alone, those of the cameras, which other programs find than those of the robot, or all.
        of_cameras = [name for name in names if name.startswith("camera_")]
        for changed in filter(None, [*([name] for name in names), of_cameras, names]):
            undone = {name: undo(recording[name]) for name in changed}
            yield f"{' and '.join(changed)} {mistake}", {**recording, **undone}

    for pos, quat in [(name.replace("quat", "pos", 1), name) for name in recording if name.startswith("camera_quat_")]:
        there = -np.swapaxes(_rotation(recording[quat]), -1, -2) @ recording[pos][..., None]
        undone = {pos: there[..., 0].astype(np.float32), quat: recording[quat] * np.array([-1, -1, -1, 1], np.float32)}
        yield f"{pos} and {quat} were of the world in the camera: invert them", {**recording, **undone}


def _turned_about_x(quat: np.ndarray) -> np.ndarray:
    x, y, z, w = np.moveaxis(quat, -1, 0)
    return np.stack([w, z, -y, -x], axis=-1)
