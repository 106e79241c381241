# SPDX-License-Identifier: BSD-3-Clause
"""What bench_points.py measures: depth images of a table with boxes, and how others make clouds of K points of them.

Each peer is written as a careful user of it would. All get the same depth, poses and crop, and return (N, K, 3) in
float16. Peers that unproject at a pixel's corner get intrinsics moved by half a pixel, so that all clouds lie on the
same surface. The images hold K valid pixels or more; a peer need not pad.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import fpsample  # pyright: ignore[reportMissingImports]  # of the extra bench
import numpy as np
import open3d as o3d
import torch
from isaaclab.sensors.camera.utils import create_pointcloud_from_depth
from isaaclab.utils.math import transform_points, unproject_depth
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from torch import Tensor

from isaaclab_pc.sensors import DepthToCloud

CROP_LOWER = (-0.15, -0.55, -0.02)
CROP_UPPER = (0.95, 0.55, 0.60)
TABLE = ((-0.2, -0.6, -0.05), (1.0, 0.6, 0.0))
FLOOR_Z = -0.6
WALL_X = 1.4
BOXES = 4
FIELD_OF_VIEW = np.deg2rad(55.0)


@dataclass
class Scene:
    """Depth images of N environments and the clouds to make of them."""

    depth: Tensor
    """Distance to the image plane [m], shape (N, H, W), float32."""
    intrinsics: Tensor
    """Pinhole matrices for pixel centres at + 0.5 [px], shape (N, 3, 3)."""
    pos: Tensor
    """Camera positions [m], shape (N, 3)."""
    quat: Tensor
    """Camera orientations, optical convention, (x, y, z, w), shape (N, 4)."""
    num_points: int
    """Points per cloud, K."""
    voxel_size: float
    """Edge of a voxel [m]."""
    corner_intrinsics: Tensor = field(init=False)
    """The same cameras for pixel centres at + 0, shape (N, 3, 3)."""
    lower: Tensor = field(init=False)
    """Smallest x, y, z kept [m], shape (3,)."""
    upper: Tensor = field(init=False)
    """Largest x, y, z kept [m], shape (3,)."""

    def __post_init__(self) -> None:
        """Compute once what every call needs."""
        self.corner_intrinsics = self.intrinsics.clone()
        self.corner_intrinsics[:, :2, 2] -= 0.5
        self.lower = torch.tensor(CROP_LOWER, device=self.depth.device)
        self.upper = torch.tensor(CROP_UPPER, device=self.depth.device)

    def first(self, num_envs: int) -> Scene:
        """Return the scene of the first so many environments, or of all if there are fewer."""
        few = slice(num_envs)
        return replace(
            self, depth=self.depth[few], intrinsics=self.intrinsics[few], pos=self.pos[few], quat=self.quat[few]
        )

    def valid_points(self, env: int) -> NDArray[np.float64]:
        """Return every pixel's point inside the crop [m], shape (M, 3)."""
        depth = self.depth[env].double().cpu().numpy()
        k = self.intrinsics[env].double().cpu().numpy()
        v, u = np.indices(depth.shape) + 0.5
        rays = np.stack(((u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], np.ones_like(u)), axis=-1)
        rotation = Rotation.from_quat(self.quat[env].double().cpu().numpy())
        seen = np.isfinite(depth) & (depth > 0)
        points = rotation.apply(depth[seen][:, None] * rays[seen]) + self.pos[env].double().cpu().numpy()
        return points[((points >= CROP_LOWER) & (points <= CROP_UPPER)).all(axis=1)]


def make_scene(
    num_envs: int, height: int, width: int, num_points: int, *, voxel_size: float, device: str, seed: int = 0
) -> Scene:
    """Render a table with boxes in front of a wall, seen at 45 degrees from about 0.9 m above.

    Args:
        num_envs: Number of environments, N; each has its own boxes and a camera moved by a few centimetres.
        height: Rows of the image, H.
        width: Columns of the image, W.
        num_points: Points per cloud, K.
        voxel_size: Edge of a voxel [m].
        device: Torch device.
        seed: Seed of the boxes and cameras.

    Returns:
        The scene.
    """
    rng = np.random.default_rng(seed)
    pos = np.array([-0.35, 0.0, 0.85]) + rng.uniform(-0.03, 0.03, (num_envs, 3))
    pitch = np.pi / 4 + rng.uniform(-0.05, 0.05, num_envs)
    # Optical axes in the world: x to the right of the camera (-y), y down, z forward, tilted down by the pitch.
    forward = np.stack((np.cos(pitch), 0 * pitch, -np.sin(pitch)), axis=-1)
    right = np.broadcast_to([0.0, -1.0, 0.0], forward.shape)
    axes = np.stack((right, np.cross(forward, right), forward), axis=-1)

    focal = 0.5 * width / np.tan(0.5 * FIELD_OF_VIEW)
    intrinsics = np.array([[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]])

    depth = np.empty((num_envs, height, width), dtype=np.float32)
    v, u = np.indices((height, width)) + 0.5
    rays = np.stack(((u - 0.5 * width) / focal, (v - 0.5 * height) / focal, np.ones_like(u)), axis=-1)
    for env in range(num_envs):
        size = rng.uniform(0.04, 0.16, (BOXES, 3))
        centre = rng.uniform((0.05, -0.4, 0.0), (0.8, 0.4, 0.0), (BOXES, 3))
        lower = np.vstack((centre - size * (0.5, 0.5, 0.0), TABLE[0]))
        upper = np.vstack((centre + size * (0.5, 0.5, 1.0), TABLE[1]))
        depth[env] = cast(pos[env], rays @ axes[env].T, lower, upper)

    def tensor(array: NDArray) -> Tensor:
        return torch.tensor(array, dtype=torch.float32, device=device)

    quat = Rotation.from_matrix(axes).as_quat()
    cameras = tensor(intrinsics).expand(num_envs, 3, 3).contiguous()
    return Scene(tensor(depth), cameras, tensor(pos), tensor(quat), num_points, voxel_size)


def cast(origin: NDArray, rays: NDArray, lower: NDArray, upper: NDArray) -> NDArray:
    """Return how far rays (H, W, 3) go, in their own length, until a box (B, 3), the floor or the wall stops them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(rays[..., 2] < 0, (FLOOR_Z - origin[2]) / rays[..., 2], np.inf)
        distance = np.fmin(distance, np.where(rays[..., 0] > 0, (WALL_X - origin[0]) / rays[..., 0], np.inf))
        for low, high in zip(lower, upper, strict=True):
            # Slab method: inside the box is where the ray is between all three pairs of faces.
            to_low = (low - origin) / rays
            to_high = (high - origin) / rays
            enter = np.fmin(to_low, to_high).max(axis=-1)
            leave = np.fmax(to_low, to_high).min(axis=-1)
            distance = np.where((enter <= leave) & (enter > 0), np.fmin(distance, enter), distance)
    return distance


def ours(scene: Scene, sampler: str) -> Callable[[], Tensor]:
    """Return this project's operator: every sampler is one pass over the depth."""
    num_envs, height, width = scene.depth.shape
    operator = DepthToCloud(
        num_envs,
        [(height, width)],
        scene.num_points,
        sampler=sampler,  # pyright: ignore[reportArgumentType]
        voxel_size=scene.voxel_size,
        crop_lower=CROP_LOWER,
        crop_upper=CROP_UPPER,
        device=str(scene.depth.device),
    )
    keys = torch.arange(num_envs, dtype=torch.int32, device=scene.depth.device)
    arguments = scene.depth[:, None], scene.intrinsics[:, None], scene.pos[:, None], scene.quat[:, None], keys
    return lambda: operator(*arguments).points


def isaaclab_points(scene: Scene) -> tuple[Tensor, Tensor]:
    """Return all points, (N, H * W, 3), and which of them are inside the crop, (N, H * W), by Isaac Lab's functions."""
    points = transform_points(unproject_depth(scene.depth, scene.corner_intrinsics), scene.pos, scene.quat)
    # NaN, of a miss at infinity, compares as False.
    return points, ((points >= scene.lower) & (points <= scene.upper)).all(dim=-1)


def take(points: Tensor, indices: Tensor) -> Tensor:
    """Return points (N, K, 3) of (N, P, 3) at (N, K), float16."""
    return points.gather(1, indices[..., None].expand(-1, -1, 3)).half()


def isaaclab_batched(scene: Scene) -> Tensor:
    """Unproject, transform, mask and draw without replacement, all environments at once.

    The K largest of one random number per pixel are a uniform draw; torch.multinomial does the same with a costlier
    distribution.
    """
    points, inside = isaaclab_points(scene)
    noise = torch.rand(inside.shape, device=inside.device).masked_fill_(~inside, -1.0)
    return take(points, noise.topk(scene.num_points, sorted=False).indices)


def isaaclab_multinomial(scene: Scene) -> Tensor:
    """Do as :func:`isaaclab_batched` with torch.multinomial."""
    points, inside = isaaclab_points(scene)
    return take(points, torch.multinomial(inside.float(), scene.num_points))


def isaaclab_per_env(scene: Scene) -> Tensor:
    """Loop over the environments with Isaac Lab's create_pointcloud_from_depth."""
    clouds = []
    for depth, matrix, pos, quat in zip(scene.depth, scene.corner_intrinsics, scene.pos, scene.quat, strict=True):
        points = create_pointcloud_from_depth(matrix, depth, position=pos, orientation=quat)  # pyright: ignore[reportArgumentType]
        assert isinstance(points, Tensor)
        points = points[((points >= scene.lower) & (points <= scene.upper)).all(dim=-1)]
        clouds.append(points[torch.randperm(points.shape[0], device=points.device)[: scene.num_points]])
    return torch.stack(clouds).half()


def open3d_loop(scene: Scene, sample: Callable[[o3d.geometry.PointCloud], NDArray]) -> Callable[[], Tensor]:
    """Return a loop over the environments with Open3D, which runs on the CPU; ``sample`` gives K points of a cloud."""
    num_envs, height, width = scene.depth.shape
    cameras = [
        o3d.camera.PinholeCameraIntrinsic(width, height, k) for k in scene.corner_intrinsics.double().cpu().numpy()
    ]
    extrinsics = np.tile(np.eye(4), (num_envs, 1, 1))
    rotation = Rotation.from_quat(scene.quat.double().cpu().numpy()).as_matrix()
    extrinsics[:, :3, :3] = rotation.transpose(0, 2, 1)
    extrinsics[:, :3, 3:] = -extrinsics[:, :3, :3] @ scene.pos.double().cpu().numpy()[..., None]
    box = o3d.geometry.AxisAlignedBoundingBox(CROP_LOWER, CROP_UPPER)

    def run() -> Tensor:
        clouds = np.empty((num_envs, scene.num_points, 3), dtype=np.float16)
        for env, depth in enumerate(scene.depth.cpu().numpy()):
            cloud = o3d.geometry.PointCloud.create_from_depth_image(
                o3d.geometry.Image(depth), cameras[env], extrinsics[env], depth_scale=1.0
            )
            clouds[env] = sample(cloud.crop(box))
        return torch.from_numpy(clouds).to(scene.depth.device)

    return run


def choose(points: NDArray, num_points: int, rng: np.random.Generator) -> NDArray:
    """Return random points (K, 3) of (M, 3); with fewer than K, as a voxel grid may leave, some repeat."""
    if len(points) < num_points:
        return points[np.arange(num_points) % len(points)]
    return points[rng.choice(len(points), num_points, replace=False, shuffle=False)]


def open3d_random(scene: Scene) -> Callable[[], Tensor]:
    """Return Open3D's cloud, cropped, with a random choice."""
    rng = np.random.default_rng(0)
    return open3d_loop(scene, lambda cloud: choose(np.asarray(cloud.points), scene.num_points, rng))


def open3d_voxel(scene: Scene) -> Callable[[], Tensor]:
    """Return Open3D's cloud, cropped, averaged in voxels, with a random choice of those."""
    rng = np.random.default_rng(0)

    def sample(cloud: o3d.geometry.PointCloud) -> NDArray:
        return choose(np.asarray(cloud.voxel_down_sample(scene.voxel_size).points), scene.num_points, rng)

    return open3d_loop(scene, sample)


def open3d_fps(scene: Scene) -> Callable[[], Tensor]:
    """Return Open3D's cloud, cropped, with its exact farthest-point sampling."""
    return open3d_loop(scene, lambda cloud: np.asarray(cloud.farthest_point_down_sample(scene.num_points).points))


def torch_fps(scene: Scene) -> Tensor:
    """Sample farthest points with the loop that PyTorch versions of PointNet++ share.

    Points outside of the crop start with a distance below 0 and are never the farthest.
    """
    points, inside = isaaclab_points(scene)
    num_envs = points.shape[0]
    device = points.device

    chosen = torch.zeros(num_envs, scene.num_points, dtype=torch.long, device=device)
    distance = torch.where(inside, 1e10, -1.0)
    farthest = distance.argmax(dim=1)
    batch = torch.arange(num_envs, device=device)
    for index in range(scene.num_points):
        chosen[:, index] = farthest
        centroid = points[batch, farthest].view(num_envs, 1, 3)
        new = torch.sum((points - centroid) ** 2, -1)
        closer = new < distance
        distance[closer] = new[closer]
        farthest = torch.max(distance, -1)[1]
    return take(points, chosen)


def bucket_fps(points: list[NDArray], num_points: int, height: int) -> NDArray:
    """Return fpsample's exact bucketed farthest points (N, K, 3) of clouds [(M, 3), ...]."""
    clouds = np.empty((len(points), num_points, 3), dtype=np.float16)
    for env, cloud in enumerate(points):
        clouds[env] = cloud[fpsample.bucket_fps_kdline_sampling(cloud, num_points, height, start_idx=0)]
    return clouds


def fpsample_given(scene: Scene, height: int) -> Callable[[], Tensor]:
    """Return fpsample's sampling alone: unprojecting and cropping are done before and cost it nothing."""
    points = [scene.valid_points(env).astype(np.float32) for env in range(scene.depth.shape[0])]
    return lambda: torch.from_numpy(bucket_fps(points, scene.num_points, height)).to(scene.depth.device)


def fpsample_chain(scene: Scene, height: int) -> Callable[[], Tensor]:
    """Return Isaac Lab's points and mask, then fpsample on the valid points of each environment."""

    def run() -> Tensor:
        points, inside = isaaclab_points(scene)
        valid = [cloud[mask].cpu().numpy() for cloud, mask in zip(points, inside, strict=True)]
        return torch.from_numpy(bucket_fps(valid, scene.num_points, height)).to(scene.depth.device)

    return run


def copy_depth(scene: Scene) -> Callable[[], Tensor]:
    """Return a copy of the depth images into memory that is already there: the least a reader can take."""
    target = torch.empty_like(scene.depth)
    return lambda: target.copy_(scene.depth)
