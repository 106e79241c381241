# SPDX-License-Identifier: BSD-3-Clause
"""The viewers' input: arrays on the host, all environments side by side in the world. Needs no simulator."""

from dataclasses import dataclass, field

import numpy as np

Poses = np.ndarray
"""Positions [m] and orientations (x, y, z, w), shape (..., 7), float32."""


@dataclass(frozen=True)
class Part:
    """Shapes that look the same."""

    name: str
    """Unique in its layout."""
    vertices: np.ndarray
    """In the part's own frame [m], shape (V, 3), float32."""
    triangles: np.ndarray
    """Indices of vertices, shape (T, 3), int32."""
    color: tuple[int, int, int]
    """Red, green and blue from 0 to 255."""


@dataclass(frozen=True)
class SceneLayout:
    """Constants of an environment while it runs."""

    origins: np.ndarray
    """Origins of the environments [m], shape (N, 3)."""
    parts: tuple[Part, ...]
    """Appearance of the bodies."""
    crop: np.ndarray | None
    """Lowest and highest corner of the cloud's crop box in its own frame [m], shape (2, 3); None without a cloud."""
    cameras: tuple[str, ...]
    """Cameras that the policy sees through, by their names in the scene."""
    step_s: float
    """Duration of a step [s]."""

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        return len(self.origins)


@dataclass(frozen=True)
class CameraView:
    """One camera of every environment."""

    name: str
    """Its name in the scene."""
    poses: Poses
    """Camera frames, x to the right of the image, y down, z forward, shape (N, 7)."""
    intrinsics: np.ndarray
    """Pinhole matrices [px], shape (N, 3, 3)."""
    depth: np.ndarray
    """Distance to the image plane [m], shape (N, H, W), float32; 0 where a pixel hits nothing."""


@dataclass(frozen=True)
class SceneFrame:
    """All environments after one step."""

    step: float
    """Steps since the viewer began; in a replay, fractions stand for physics steps."""
    part_poses: tuple[Poses, ...]
    """Poses of each part of the layout, each (B, 7)."""
    gripper: Poses
    """Tool centres, shape (N, 7)."""
    cameras: tuple[CameraView, ...] = ()
    """Cameras that the policy sees through."""
    cloud: np.ndarray | None = None
    """Points that the policy sees [m], shape (N, K, 3), float32; None without a cloud."""
    age: np.ndarray | None = None
    """Frames by which the cloud lags behind the cameras, shape (N,)."""
    crop_poses: Poses | None = None
    """Frames of the crop boxes, shape (N, 7)."""
    goal: np.ndarray | None = None
    """Goals that are points [m], shape (N, 3)."""
    actions: np.ndarray | None = None
    """Actions of the policy, shape (N, A); None after a reset."""
    reward: np.ndarray | None = None
    """Shape (N,); None after a reset."""
    reward_terms: dict[str, np.ndarray] = field(default_factory=dict)
    """Summands of the reward, each (N,)."""
    success: np.ndarray | None = None
    """Whether the task was fulfilled in this step, shape (N,), bool; None after a reset."""
    done: np.ndarray | None = None
    """Whether an episode ended in this step, shape (N,), bool: the scene shows the start of the next one."""
    faults: tuple[tuple[str, ...], ...] = ()
    """Causes that the guard found in this step, for each of the N environments."""
    benched: np.ndarray | None = None
    """Environments that the guard holds still, shape (N,), bool."""
    mark: tuple[np.ndarray, str] | None = None
    """Fault that a replay found: position in the world [m], shape (3,), and description."""
    watched: dict[str, float] = field(default_factory=dict)
    """Values of the quantity that a replay found; NaN where one is not finite."""


def curves(frame: SceneFrame, env: int) -> dict[str, dict[str, float]]:
    """Return an environment's values over the time by name, in the groups ``watched``, ``reward`` and ``action``."""
    found: dict[str, dict[str, float]] = {}
    if frame.watched:
        found["watched"] = frame.watched
    if frame.reward is not None:
        found["reward"] = {"total": frame.reward[env], **{name: term[env] for name, term in frame.reward_terms.items()}}
    if frame.actions is not None:
        found["action"] = {str(index): value for index, value in enumerate(frame.actions[env])}
    return found


def fault_text(frame: SceneFrame, env: int) -> str:
    """Return the guard's findings in an environment; empty where there are none."""
    causes = ", ".join(frame.faults[env]) if frame.faults else ""
    if frame.benched is not None and frame.benched[env]:
        return f"benched, {causes}" if causes else "benched"
    return causes


def label_text(frame: SceneFrame, env: int) -> str:
    """Return the label over an environment: reward, success, faults."""
    text = f"env {env}"
    if frame.reward is not None:
        text += f"   reward {frame.reward[env]:.2f}"
    if frame.success is not None and frame.success[env]:
        text += "   success"
    if frame.done is not None and frame.done[env]:
        text += "   new episode"
    fault = fault_text(frame, env)
    return f"{text}   GUARD: {fault}" if fault else text
