# SPDX-License-Identifier: BSD-3-Clause
"""Reads a recording for examples/deploy_onnx.py, and refuses arrays of another kind than that lists."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from isaaclab_pc.errors import ConfigError, closest

FRAMES = ("frame", "crop")
"""Frames whose poses a recording has, beside those of the cameras."""

_OPTIONAL = ("removed_", "centers_", "key")
"""Beginnings of the names of arrays that may be missing."""

Recording = dict[str, np.ndarray]
"""Arrays by their names, F frames each."""


def load_recording(path: Path, policy: dict[str, Any], shapes: dict[str, list[Any]]) -> Recording:
    """Read a recording, and check that it has all arrays, with their sizes and types, and that they are finite.

    Args:
        path: An npz file; examples/deploy_onnx.py lists its arrays.
        policy: What stands in policy.json.
        shapes: Those of the policy's inputs, the number of frames first.

    Returns:
        Its arrays, F frames each: float32, but for ``key``, int32, and ``removed_<camera>``, bool.

    Raises:
        ConfigError: The file cannot be read, or an array is missing or wrong.
    """
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read as a recording, an npz file of arrays: {error}") from error

    return check_arrays(arrays, policy, shapes, str(path))


def check_arrays(
    arrays: dict[str, np.ndarray], policy: dict[str, Any], shapes: dict[str, list[Any]], source: str
) -> Recording:
    """Check the arrays of a recording as :func:`load_recording` does; ``source`` begins the messages.

    Raises:
        ConfigError: An array is missing or wrong.
    """
    expected = _expected_shapes(policy, shapes)
    for name in expected:
        if name not in arrays and not name.startswith(_OPTIONAL):
            raise ConfigError(f"{source}: has no array {name!r}; {closest(name, arrays)}")
    frames = len(np.atleast_1d(arrays[next(iter(expected))]))
    if frames == 0:
        raise ConfigError(f"{source}: has no frames: {next(iter(expected))!r} is empty.")
    arrays = {"key": np.arange(frames), **arrays}

    expected["actions"] = _sizes(shapes["actions"])
    recording: Recording = {}
    for name, shape in expected.items():
        kind, _, camera = name.partition("_")
        if kind in ("removed", "centers"):
            # They come after their image, and have its size.
            shape = (*recording[f"depth_{camera}"].shape[1:], *shape[2:])
        if name in arrays:
            recording[name] = _checked(name, arrays[name], (frames, *shape))

    given = [name for name in expected if name.startswith("centers_") and name in arrays]
    without = [name for name in expected if name.startswith("centers_") and name not in arrays]
    if given and without:
        raise ConfigError(f"{source}: has {given[0]!r} and no {without[0]!r}: give it for each camera, or for none.")
    return recording


def refuse_frames(bad: np.ndarray, what: str) -> None:
    """Raise a :class:`ConfigError` with the frames of a mask, shape (F,), if there are any, and what they have."""
    if bad.any():
        raise ConfigError(f"{frames_text(bad)}: {what}.")


def frames_text(mask: np.ndarray) -> str:
    """Name the frames of a mask, shape (F,): ``frames 0 to 3, 7``."""
    frames = np.flatnonzero(mask)
    runs = np.split(frames, np.flatnonzero(np.diff(frames) > 1) + 1)
    names = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
    return f"{'frame' if len(frames) == 1 else 'frames'} {names}"


def _expected_shapes(policy: dict[str, Any], shapes: dict[str, list[Any]]) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of one frame of each array that a policy needs, or may be given; None is any size."""
    expected: dict[str, tuple[int | None, ...]] = {}
    length = policy.get("history", {"length": 1})["length"]
    for entry in policy["inputs"]:
        name = entry["name"]
        shape = _sizes(shapes[name])
        if name == "points" and "cloud" in policy:
            for camera in policy["cloud"]["cameras"]:
                expected |= {f"depth_{camera}": (None, None), f"removed_{camera}": (None, None)}
                expected[f"centers_{camera}"] = (None, None, 2)
                expected |= {
                    f"camera_pos_{camera}": (3,),
                    f"camera_quat_{camera}": (4,),
                    f"intrinsics_{camera}": (3, 3),
                }
            expected |= {f"{frame}_{part}": (size,) for frame in FRAMES for part, size in (("pos", 3), ("quat", 4))}
            expected["key"] = ()
        elif "max_depth" in entry:
            expected["depth_camera"] = shape[-2:]
        elif length > 1:
            expected[name] = (shape[0] // length,) if len(shape) == 1 else shape[1:]
        else:
            expected[name] = shape
    return expected


def _sizes(shape: list[Any]) -> tuple[Any, ...]:
    """Return the shape of one frame; onnxruntime has names for sizes that may be any."""
    return tuple(size if isinstance(size, int) else None for size in shape[1:])


def _checked(name: str, array: np.ndarray, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array with the type of its kind."""
    fits = array.ndim == len(shape) and all(want in (None, size) for want, size in zip(shape, array.shape, strict=True))
    if not fits or 0 in array.shape:
        is_read = name.startswith("depth_") and array.ndim == 3 and None not in shape
        hint = ": the policy reads the image itself, so crop it and take every n-th pixel" if is_read else ""
        wanted = ", ".join(["frames", *("any" if size is None else str(size) for size in shape[1:])])
        raise ConfigError(f"{name} has the shape {array.shape}, expected ({wanted}) of {shape[0]} frames{hint}.")
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{name} holds {array.dtype}, expected numbers.")

    if name.startswith("removed_"):
        return array != 0
    if name == "key":
        if array.dtype.kind not in "iu":
            raise ConfigError(f"key holds {array.dtype}, expected int32.")
        return array.astype(np.int32)
    if name.startswith("depth_"):
        if array.dtype.kind != "f":
            raise ConfigError(
                f"{name} holds {array.dtype}, expected metres as float32: multiply by the camera's depth scale, 0.001 "
                "where it counts millimetres."
            )
        return array.astype(np.float32)
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    is_finite = np.isfinite(array).reshape(len(array), -1)
    columns = ", ".join(map(str, np.flatnonzero(~is_finite.all(axis=0))))
    refuse_frames(~is_finite.all(axis=1), f"{name} is NaN or infinite at {columns}")
    return array
