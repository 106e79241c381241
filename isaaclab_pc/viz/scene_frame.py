# SPDX-License-Identifier: BSD-3-Clause
"""Frames for a viewer to draw: plain arrays on the host, all positions in the world, all environments side by side.

Nothing here needs a simulator, so a viewer can be fed by anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["CameraView", "Mark", "Part", "SceneFrame", "SceneLayout", "fault_text", "label_text"]

Poses = np.ndarray
"""Positions [m] and orientations (x, y, z, w), shape (..., 7), float32."""


@dataclass(frozen=True)
class Part:
    """Bodies, or pieces of bodies, that look the same."""

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
    """Smallest and largest corner of the cloud's crop box in its own frame [m], shape (2, 3); None without a cloud."""

    color_names: dict[str, tuple[str, ...]]
    """The ways in which points may be coloured, with what their colours stand for, the lowest first."""

    cameras: tuple[str, ...]
    """The cameras that the policy sees through, as in the scene."""

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
    """As in the scene."""

    poses: Poses
    """Where the cameras are, x to the right of the image, y down, z forward, shape (N, 7)."""

    intrinsics: np.ndarray
    """Pinhole matrices [px], shape (N, 3, 3)."""

    depth: np.ndarray
    """Distance to the image plane [m], shape (N, H, W), float32; 0 where a pixel hits nothing."""


@dataclass(frozen=True)
class Mark:
    """A place to look at."""

    position: np.ndarray
    """Where it is [m], shape (3,)."""

    text: str
    """Description of the fault."""


@dataclass(frozen=True)
class SceneFrame:
    """All environments after one step."""

    step: float
    """Steps since the viewer began; in a replay also between two of them, after each physics step."""

    part_poses: tuple[Poses, ...]
    """Where each part of the layout is drawn, each (B, 7)."""

    gripper: Poses
    """Tool centres, shape (N, 7)."""

    cameras: tuple[CameraView, ...] = ()
    """Those that the policy sees through."""

    cloud: np.ndarray | None = None
    """The points that the policy sees [m], shape (N, K, 3), float32; None without a cloud."""

    cloud_colors: dict[str, np.ndarray] = field(default_factory=dict)
    """Their colours in each of the layout's ways, each (N, K, 3), uint8."""

    age: np.ndarray | None = None
    """Frames by which the cloud lags behind the cameras, shape (N,)."""

    crop_poses: Poses | None = None
    """Where the crop boxes' frame is, shape (N, 7)."""

    goal: np.ndarray | None = None
    """Goals that are points [m], shape (N, 3)."""

    actions: np.ndarray | None = None
    """Actions of the policy, shape (N, A); None after a reset."""

    reward: np.ndarray | None = None
    """Shape (N,); None after a reset."""

    reward_terms: dict[str, np.ndarray] = field(default_factory=dict)
    """The summands of the reward, each (N,)."""

    success: np.ndarray | None = None
    """Whether the task was fulfilled in this step, shape (N,), bool; None after a reset."""

    done: np.ndarray | None = None
    """Whether an episode ended in this step, shape (N,), bool: what is drawn is the next one's start."""

    faults: tuple[tuple[str, ...], ...] = ()
    """Causes that the guard found in this step, one text for each of N environments."""

    benched: np.ndarray | None = None
    """Environments that the guard holds still, shape (N,), bool."""

    mark: Mark | None = None
    """Finding of a replay."""

    watched: dict[str, float] = field(default_factory=dict)
    """Values of what a replay found, for a time line; NaN where one is not finite."""

    @property
    def has_fault(self) -> bool:
        """Whether the guard found anything in this step."""
        return any(self.faults)


def fault_text(frame: SceneFrame, env: int) -> str:
    """Return what the guard says about an environment, in a few words; empty where it says nothing."""
    causes = ", ".join(frame.faults[env]) if frame.faults else ""
    if frame.benched is not None and frame.benched[env]:
        return f"benched, {causes}" if causes else "benched"
    return causes


def label_text(frame: SceneFrame, env: int) -> str:
    """Return what stands over an environment: its reward, and success and faults where there are."""
    text = f"env {env}"
    if frame.reward is not None:
        text += f"   reward {frame.reward[env]:.2f}"
    if frame.success is not None and frame.success[env]:
        text += "   success"
    if frame.done is not None and frame.done[env]:
        text += "   new episode"
    fault = fault_text(frame, env)
    return f"{text}   GUARD: {fault}" if fault else text
