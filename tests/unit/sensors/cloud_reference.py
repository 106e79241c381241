# SPDX-License-Identifier: BSD-3-Clause
"""Random inputs of the cloud operator, and what must come out of it: plain numpy, float64 where not said otherwise."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud

MISSES = (0.0, -1.0, np.inf, -np.inf, np.nan)
ULP = 2.0**-24
"""Largest relative error of one rounding to float32."""


@dataclass(frozen=True)
class Scene:
    """The operator's input: N environments with C cameras."""

    depth: list[torch.Tensor]
    """Distance to the image plane [m], one (N, H, W) per camera."""

    tensors: dict[str, torch.Tensor]
    """The operator's other arguments by their names; keys are int32."""

    labels: list[torch.Tensor] | None = None
    """Semantic ids, one (N, H, W) per camera; None where none are removed."""

    removed: torch.Tensor | None = None
    """True at the ids to remove."""

    centers: list[torch.Tensor] | None = None
    """Where a pinhole would see what each pixel sees [px], one (H, W, 2) per camera; None: no camera has a lens."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Crop, near and far [m], by the names of the operator's settings."""

    @property
    def sizes(self) -> list[tuple[int, int]]:
        return [(image.shape[1], image.shape[2]) for image in self.depth]

    @property
    def num_pixels(self) -> int:
        return sum(height * width for height, width in self.sizes)

    def operator(self, num_points: int, **settings: Any) -> DepthToCloud:
        """Make an operator for this scene: float32 and voxels of 0.1 m unless told otherwise."""
        defaults = {"dtype": "float32", "voxel_size": 0.1, **self.settings}
        return DepthToCloud(len(self.depth[0]), self.sizes, num_points, **{**defaults, **settings})

    def sample(self, operator: DepthToCloud, **changes: Any) -> Cloud:
        """Call the operator; ``changes`` replace arguments."""
        arguments = {"depth": self.depth, "labels": self.labels, "removed": self.removed, "centers": self.centers}
        return operator(**{**arguments, **self.tensors, **changes})

    def cloud(self, num_points: int, **settings: Any) -> Cloud:
        return self.sample(self.operator(num_points, **settings))

    def envs(self, index: list[int]) -> "Scene":
        """Return a scene of these environments, in this order."""
        return replace(
            self,
            depth=[image[index] for image in self.depth],
            tensors={name: tensor[index] for name, tensor in self.tensors.items()},
            labels=None if self.labels is None else [image[index] for image in self.labels],
        )

    def in_crop_frame(self) -> "Scene":
        """Return the same scene with its points in the crop's frame, in which samplers measure."""
        return replace(self, tensors={name: t for name, t in self.tensors.items() if not name.startswith("output")})


def random_scene(
    seed: int,
    num_envs: int,
    sizes: list[tuple[int, int]],
    *,
    frames: bool = True,
    labelled: bool = False,
    misses: float = 0.2,
    cropped: bool = True,
    lenses: bool = False,
) -> Scene:
    """Draw cameras, images and frames of ``num_envs`` environments with origins up to 20 m from the world's.

    ``frames``: the crop and the output have frames of their own. ``labelled``: some labels are removed. ``misses``:
    share of the pixels that see nothing. ``cropped``: crop, near and far take points away. ``lenses``: rays have
    directions of their own.
    """
    rng = np.random.default_rng(seed)
    origins = rng.uniform(-20, 20, (num_envs, 3)) if frames else np.zeros((num_envs, 3))
    images = []
    for size in sizes:
        image = rng.uniform(0.2, 2.0, (num_envs, *size))
        missing = rng.random(image.shape) < misses
        image[missing] = rng.choice(MISSES, missing.sum())
        images.append(image)
    intrinsics = np.zeros((num_envs, len(sizes), 3, 3))
    for camera, (height, width) in enumerate(sizes):
        intrinsics[:, camera, 0, 0] = rng.uniform(0.5, 3, num_envs) * width
        intrinsics[:, camera, 1, 1] = rng.uniform(0.5, 3, num_envs) * height
        intrinsics[:, camera, 0, 2] = rng.uniform(-0.5, 1.5, num_envs) * width
        intrinsics[:, camera, 1, 2] = rng.uniform(-0.5, 1.5, num_envs) * height
    intrinsics[..., 2, 2] = 1.0
    arrays = {
        "intrinsics": intrinsics,
        "camera_pos": origins[:, None] + rng.uniform(-1, 1, (num_envs, len(sizes), 3)),
        "camera_quat": _random_quats(rng, num_envs, len(sizes)),
    }
    if frames:
        for name in ("frame", "output"):
            arrays[f"{name}_pos"] = origins + rng.uniform(-1, 1, (num_envs, 3))
            arrays[f"{name}_quat"] = _random_quats(rng, num_envs)
    tensors = {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
    tensors["keys"] = torch.tensor(rng.integers(-(2**31), 2**31, num_envs), dtype=torch.int32)
    labels = [torch.tensor(rng.integers(-1, 6, image.shape), dtype=torch.int32) for image in images]
    centers = [torch.tensor(rng.uniform(-1, 2, (*size, 2)) * size[::-1], dtype=torch.float32) for size in sizes]
    limits = {"crop_lower": (-50.0,) * 3, "crop_upper": (50.0,) * 3}
    if cropped:
        limits = {
            "crop_lower": tuple(rng.uniform(-3.0, -0.5, 3)),
            "crop_upper": tuple(rng.uniform(0.5, 3.0, 3)),
            "near": tuple(rng.uniform(0.0, 0.5, len(sizes))),
            "far": tuple(rng.uniform(1.5, 2.5, len(sizes))),
        }
    return Scene(
        depth=[torch.tensor(image, dtype=torch.float32) for image in images],
        tensors=tensors,
        labels=labels if labelled else None,
        removed=torch.tensor([False, True, False, True]) if labelled else None,
        centers=centers if lenses else None,
        settings=limits,
    )


def _random_quats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return Rotation.random(int(np.prod(shape)), rng=rng).as_quat().reshape(*shape, 4)


@dataclass(frozen=True)
class Reference:
    """Every pixel of one environment, in the operator's numbering."""

    cropped: np.ndarray
    """Points in the crop's frame [m], shape (P, 3)."""

    points: np.ndarray
    """Points in the output frame [m], shape (P, 3)."""

    tolerance: np.ndarray
    """How far float32 may be off [m], shape (P,)."""

    valid: np.ndarray
    """Whether the pixel may be sampled, shape (P,)."""

    unsure: np.ndarray
    """Whether float32 may see the point on the other side of the crop's border, shape (P,)."""


def reference(scene: Scene, env: int) -> Reference:
    """Unproject one environment in float64: invert K, apply the poses one after another, crop."""
    get = {name: tensor[env].double().numpy() for name, tensor in scene.tensors.items()}
    cropped, points, tolerance, seen = [], [], [], []
    for camera, (height, width) in enumerate(scene.sizes):
        depth = scene.depth[camera][env].double().numpy().ravel()
        hit = np.isfinite(depth) & (depth > np.float32(_of_camera(scene, "near", 0.0, camera)))
        hit &= depth < np.float32(_of_camera(scene, "far", np.inf, camera))
        hit &= depth > 0
        if scene.labels is not None and scene.removed is not None:
            table = scene.removed.numpy()
            labels = scene.labels[camera][env].numpy().ravel()
            known = (labels >= 0) & (labels < len(table))
            hit &= ~(known & table[np.where(known, labels, 0)])
        row, column = np.indices((height, width))
        pixel = np.stack([column + 0.5, row + 0.5, np.ones_like(row)], axis=-1).reshape(-1, 3)
        if scene.centers is not None:
            pixel[:, :2] = scene.centers[camera].double().numpy().reshape(-1, 2)
        inverse = np.linalg.inv(get["intrinsics"][camera])
        in_camera = np.where(hit, depth, 0.0)[:, None] * (pixel @ inverse.T)
        position = get["camera_pos"][camera]
        in_world = Rotation.from_quat(get["camera_quat"][camera]).apply(in_camera) + position
        in_crop = _into(in_world, get.get("frame_pos"), get.get("frame_quat"))
        cropped.append(in_crop)
        points.append(_into(in_world, get["output_pos"], get["output_quat"]) if "output_pos" in get else in_crop)
        # The operator adds up z u / fx, z cx / fx and so on: their sizes and not the sum's bound its roundings.
        terms = np.where(hit, depth, 0.0) * (np.abs(pixel) @ np.abs(inverse).T).sum(1)
        moved = position if "frame_pos" not in get else position - get["frame_pos"]
        offset = 0.0 if "output_pos" not in get else np.linalg.norm(get["frame_pos"] - get["output_pos"])
        tolerance.append(16 * ULP * (terms + np.linalg.norm(moved) + offset))
        seen.append(hit)
    cropped, seen, tolerance = np.concatenate(cropped), np.concatenate(seen), np.concatenate(tolerance)
    lower = np.array(scene.settings.get("crop_lower", (-np.inf,) * 3))
    upper = np.array(scene.settings.get("crop_upper", (np.inf,) * 3))
    inside = ((cropped >= lower) & (cropped <= upper)).all(1)
    border = np.minimum(np.abs(cropped - lower), np.abs(cropped - upper)) <= tolerance[:, None] + ULP * 4
    return Reference(cropped, np.concatenate(points), tolerance, seen & inside, seen & border.any(1))


def _of_camera(scene: Scene, name: str, default: float, camera: int) -> float:
    return float(np.broadcast_to(scene.settings.get(name, default), len(scene.depth))[camera])


def _into(points: np.ndarray, position: np.ndarray | None, quat: np.ndarray | None) -> np.ndarray:
    points = points if position is None else points - position
    return points if quat is None else Rotation.from_quat(quat).inv().apply(points)


def greedy_farthest(points: np.ndarray, start: int, num_picks: int) -> np.ndarray:
    """Run the plain greedy farthest-point algorithm in the points' own precision.

    Args:
        points: Points [m], shape (M, 3), float32 where the picks are to equal the operator's.
        start: First pick.
        num_picks: Number of picks, at most M.

    Returns:
        Indices, none twice, ties going to the lowest, shape (num_picks,).
    """
    distance = np.full(len(points), np.inf, dtype=points.dtype)
    picks = [start]
    taken = np.zeros(len(points), dtype=bool)
    while len(picks) < num_picks:
        taken[picks[-1]] = True
        dx, dy, dz = (points - points[picks[-1]]).T
        distance = np.minimum(distance, dx * dx + dy * dy + dz * dz)
        picks.append(int(np.argmax(np.where(taken, -1.0, distance))))
    return np.array(picks)


def voxel_of(points: np.ndarray, crop_lower: tuple[float, ...], voxel_size: float) -> np.ndarray:
    """Return the voxel of each float32 point, counted from the crop's lower corner, shape (M, 3), int64."""
    return ((points - np.asarray(crop_lower, dtype=np.float32)) / np.float32(voxel_size)).astype(np.int64)
