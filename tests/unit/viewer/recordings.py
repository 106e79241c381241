# SPDX-License-Identifier: BSD-3-Clause
"""Reads a recording of rerun's back."""

from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr
from scipy.spatial.transform import Rotation

from isaaclab_pc.viewer.rerun_recording import TIMELINE


def read(path: Path, entity: str, component: str) -> dict[int, Any]:
    """Return what was logged for one component of an entity, by step, as nested lists."""
    found = {}
    for chunk in rr.recording.load_recording(path).chunks():
        batch = chunk.to_record_batch()
        names = batch.schema.names
        if chunk.entity_path == f"/{entity}" and component in names and TIMELINE in names:
            steps, values = batch.column(TIMELINE).to_pylist(), batch.column(component).to_pylist()
            found |= {step: value for step, value in zip(steps, values, strict=True) if value is not None}
    return found


def entities_of(path: Path) -> set[str]:
    """Return what a recording has entities of, without the slash in front."""
    return {chunk.entity_path.removeprefix("/") for chunk in rr.recording.load_recording(path).chunks()}


def camera_points(path: Path, camera: str, step: int) -> np.ndarray:
    """Return what a camera's depth image shows in the world [m], shape (P, 3): all from the recording."""

    def logged(entity: str, component: str) -> Any:
        return read(path, entity, component)[step][0]

    width, height = np.array(logged(camera, "Pinhole:resolution"), int)
    # By columns.
    intrinsics = np.array(logged(camera, "Pinhole:image_from_camera")).reshape(3, 3).T
    depth = np.frombuffer(bytes(logged(f"{camera}/depth", "DepthImage:buffer")), np.float32).reshape(height, width)
    rotation = Rotation.from_quat(logged(camera, "Transform3D:quaternion"))

    rows, columns = np.nonzero(depth)
    centers = np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))])
    rays = np.linalg.solve(intrinsics, centers).T
    return rotation.apply(rays * depth[rows, columns, None]) + logged(camera, "Transform3D:translation")


def rgb(colors: Any) -> np.ndarray:
    """Return packed colours as red, green and blue, shape (K, 3)."""
    packed = np.asarray(colors, np.uint32)
    return np.stack([packed >> 24, packed >> 16 & 255, packed >> 8 & 255], axis=-1)
