# SPDX-License-Identifier: BSD-3-Clause
"""Two environments with one body each, as plain arrays."""

from typing import Any

import numpy as np

from isaaclab_pc.viewer.scene_frame import CameraView, Part, SceneFrame, SceneLayout

ORIGINS = np.array([[0.0, 0.0, 0.0], [0.0, 2.5, 0.0]])
POINTS = 5
CAMERAS = ("camera", "wrist_camera")


def layout() -> SceneLayout:
    triangle = Part("part_0", np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.int32), (200, 100, 50))
    crop = np.array([[0.2, -0.4, 0.0], [0.8, 0.4, 0.6]], np.float32)
    return SceneLayout(ORIGINS, (triangle,), crop, CAMERAS, step_s=0.05)


def frame(step: float, **fields: Any) -> SceneFrame:
    """Return a frame whose points have the step as their x."""
    poses = np.hstack([ORIGINS, [[0.0, 0.0, 0.0, 1.0]] * 2]).astype(np.float32)
    intrinsics = np.tile(np.array([[8.0, 0.0, 4.0], [0.0, 8.0, 3.0], [0.0, 0.0, 1.0]]), (2, 1, 1))
    near, far = (np.full((2, 6, 8), depth, np.float32) for depth in (0.5, 1.5))
    near[:, 0, 0] = far[:, 0, 0] = 1.0
    cloud = np.tile(np.array([step, 0.0, 0.25], np.float32), (2, POINTS, 1)) + ORIGINS[:, None].astype(np.float32)
    values: dict[str, Any] = {
        "part_poses": (poses,),
        "gripper": poses,
        "cameras": tuple(
            CameraView(name, poses, intrinsics, depth) for name, depth in zip(CAMERAS, (near, far), strict=True)
        ),
        "cloud": cloud,
        "age": np.zeros(2, np.int64),
        "crop_poses": poses,
        "goal": ORIGINS + 0.1,
        "actions": np.array([[0.1, -0.2], [0.3, 0.4]]),
        "reward": np.array([0.5, 0.25]),
        "reward_terms": {"reach": np.array([0.5, 0.25])},
        "success": np.array([False, True]),
        "done": np.array([False, False]),
        "faults": ((), ()),
        "benched": np.array([False, False]),
    }
    return SceneFrame(step=step, **(values | fields))
