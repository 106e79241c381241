# SPDX-License-Identifier: BSD-3-Clause
"""Success of policies that see through a stereo camera: two images of a dot pattern, matched by OpenCV.

    python benchmarks/stereo_judge.py --task lift push --episodes 64
    python benchmarks/stereo_judge.py --task lift --policy <run of train.py>
    python benchmarks/stereo_judge.py --task lift --picture stereo.png

No policy was trained on these errors: nothing of ``points.realism`` is in them. Beside each camera of the cloud, which
is the left imager, stand a right one and a projector, where a RealSense D435 has them. Newton renders the depth that
each of the three sees. From it come infrared images of a pattern of random dots: what the projector does not see is
dark, brightness falls with distance and incidence, and both images have noise of their own. Semi-global matching finds
the disparity, with holes, fattened edges and mismatches as they come. A step takes about 0.15 s for each environment.
Needs the extra ``bench``.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2  # pyright: ignore[reportMissingImports]  # of the extra bench
import numpy as np
import torch
from isaaclab.utils import replace
from scipy.spatial.transform import Rotation
from torch import Tensor
from torch.nn import functional

from isaaclab_pc.cli.command_line import parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.commands.trained_policy import find_policy
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.run.pretrained import pretrained_tasks
from isaaclab_pc.sensors.scene_cameras import depth_image
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

RIGHT_M = 0.050
PROJECTOR_M = 0.029
"""How far right of the left imager the other imager and the projector are in a D435."""

DOTS_PER_PX = 0.04
DOT_PX = 0.8
"""Standard deviation of a dot's brightness in the image."""
AMBIENT = 0.15
"""Brightness without the pattern, relative to a dot's."""
IMAGE_NOISE = 2.0
"""Standard deviation of a pixel of 0 to 255."""
SHADOW_M = 0.01
NEAREST_M = 0.25
"""Depth of the largest disparity that is looked for."""
BLOCK = 5
"""Rows and columns that are compared in matching."""
PICTURE_STEP = 20


class StereoCamera:
    """Stands in the place of the sensor's ``DepthRealism``: its depth is matched, its calibration exact."""

    def __init__(self, env: Any) -> None:
        """Find the imagers and projectors of :func:`add_imagers` in the scene."""
        self._scene = env.scene
        self._names = list(env.scene["points"].cfg.cameras)
        self._pool = ThreadPoolExecutor(torch.get_num_threads())
        self._generator = np.random.default_rng(0)
        self.age = torch.zeros(env.num_envs, dtype=torch.long)
        self.last: dict[str, Any] = {}
        """Images and depths of the last frame, for a picture."""

    def redraw(self, mask: Tensor, keys: Tensor) -> None:
        """Nothing is constant over an episode."""

    def calibrate(self, camera: int, *calibration: Tensor) -> tuple[Tensor, ...]:
        """Return the true calibration."""
        return calibration

    def delay(self, *tensors: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return the frame at once."""
        return tensors

    def corrupt(
        self, camera: int, depth: Tensor, intrinsics: Tensor, keys: Tensor, mask: Tensor | None, labels: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the matched depth [m], 0 for a hole, of the left imager's true one, both (N, H, W), and the labels."""
        name = self._names[camera]
        right, projector = (depth_image(self._scene[f"{name}_{part}"]) for part in ("right", "projector"))
        focal_length = float(intrinsics[0, 0, 0])
        images = [
            infrared(seen, projector, offset, focal_length).mul_(255.0).numpy()
            for seen, offset in ((depth, 0.0), (right, RIGHT_M))
        ]
        noisy = [
            (image + IMAGE_NOISE * self._generator.standard_normal(image.shape, np.float32))
            .clip(0, 255)
            .astype(np.uint8)
            for image in images
        ]
        product = focal_length * RIGHT_M
        found = self._pool.map(lambda left, right: matched_depth(left, right, product), *noisy)
        matched = np.stack(list(found))
        self.last = {"left": noisy[0], "right": noisy[1], "true": depth.numpy(), "matched": matched}
        return torch.from_numpy(matched), labels


def infrared(depth: Tensor, projector: Tensor, offset: float, focal_length: float) -> Tensor:
    """Return images in [0, 1], (N, H, W), of an imager ``offset`` [m] right of the left one.

    ``depth`` is what it sees, (N, H, W), and ``projector`` what the projector does, [m]; both have one field of view.
    """
    height, width = depth.shape[1:]
    z = torch.where((depth > 0.0) & depth.isfinite(), depth, 10.0)
    row, column = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    # The imagers stand side by side: between them a point moves along its row.
    there = column + focal_length * (offset - PROJECTOR_M) / z
    grid = torch.stack([2.0 * there / width - 1.0, (2.0 * row / height - 1.0).expand_as(z)], dim=-1)
    seen = torch.where((projector > 0.0) & projector.isfinite(), projector, 10.0)[:, None]
    nearest = functional.grid_sample(seen, grid, mode="nearest", align_corners=False)[:, 0]
    is_lit = (z - nearest < SHADOW_M) & (there >= 0.0) & (there < width)

    # The pattern is finer than the image.
    pattern = dots(height, width).expand(len(z), -1, -1, -1)
    light = functional.grid_sample(pattern, grid, align_corners=False)[:, 0]

    brightness = incidence(z, row, column, focal_length) * (0.8 / z).square()
    return (brightness * (AMBIENT + light * is_lit)).clamp(0.0, 1.0)


@functools.cache
def dots(height: int, width: int) -> Tensor:
    """Return a pattern of random dots, (1, 1, 4 H, 4 W), from 0 to 1."""
    generator = torch.Generator().manual_seed(0)
    is_dot = torch.rand(4 * height, 4 * width, generator=generator) < DOTS_PER_PX / 16.0
    blurred = cv2.GaussianBlur(is_dot.float().numpy(), (0, 0), 4.0 * DOT_PX)
    return torch.from_numpy(np.clip(blurred / (1.0 / (2.0 * np.pi * (4.0 * DOT_PX) ** 2)), 0.0, 1.0))[None, None]


def incidence(z: Tensor, row: Tensor, column: Tensor, focal_length: float) -> Tensor:
    """Return the cosine between the rays of pixels and the normals of the surfaces that they see, (N, H, W)."""
    height, width = z.shape[1:]
    ray = torch.stack([(column - width / 2) / focal_length, (row - height / 2) / focal_length, torch.ones_like(row)])
    points = ray * z[:, None]
    along = functional.pad(points[..., 2:] - points[..., :-2], (1, 1, 0, 0), mode="replicate")
    down = functional.pad(points[..., 2:, :] - points[..., :-2, :], (0, 0, 1, 1), mode="replicate")
    normal = functional.normalize(torch.linalg.cross(along, down, dim=1), dim=1)
    return (normal * functional.normalize(ray, dim=0)).sum(dim=1).abs()


def matched_depth(left: np.ndarray, right: np.ndarray, product: float) -> np.ndarray:
    """Return the depth [m] that semi-global matching finds, 0 for a hole.

    ``left`` and ``right`` are images (H, W), uint8; ``product`` is focal length times baseline [px m].
    """
    most = 16 * int(np.ceil(product / NEAREST_M / 16))
    # OpenCV leaves out as many columns on the left.
    padded = [cv2.copyMakeBorder(image, 0, 0, most, 0, cv2.BORDER_REPLICATE) for image in (left, right)]
    matcher = cv2.StereoSGBM.create(
        minDisparity=1,
        numDisparities=most,
        blockSize=BLOCK,
        P1=8 * BLOCK**2,
        P2=32 * BLOCK**2,
        disp12MaxDiff=1,
        uniquenessRatio=10,
        speckleWindowSize=100,
        speckleRange=2,
        mode=cv2.STEREO_SGBM_MODE_SGBM_3WAY,
    )
    disparity = matcher.compute(*padded)[:, most:].astype(np.float32) / 16.0
    return np.where(disparity >= 1.0, product / np.maximum(disparity, 1.0), 0.0).astype(np.float32)


def add_imagers(env_cfg: Any) -> None:
    """Add a right imager and a projector beside each camera of the cloud."""
    scene = env_cfg.scene
    for name in scene.points.cameras:
        camera = getattr(scene, name)
        assert camera.offset.convention == "ros"
        axis = Rotation.from_quat(camera.offset.rot).apply([1.0, 0.0, 0.0])
        # A shadow's edge to two pixels is enough.
        for part, distance, coarser in (("right", RIGHT_M, 1), ("projector", PROJECTOR_M, 2)):
            size = {"width": camera.width // coarser, "height": camera.height // coarser}
            offset = replace(camera.offset, pos=tuple(np.asarray(camera.offset.pos) + distance * axis))
            path = f"{camera.prim_path}_{part}"
            more = replace(camera, prim_path=path, offset=offset, data_types=["depth"], **size)
            setattr(scene, f"{name}_{part}", more)


def judge(task: str, args: argparse.Namespace) -> Any:
    """Play a policy of a task; returns the evaluation."""
    from film import actor

    command = parse_command([f"task={task}"])
    settings, checkpoint, _ = find_policy(args.policy, compose(command.settings), command, ())
    # Of two overrides of a field, the last one counts.
    overrides = [*settings.env_overrides, "env.randomization=none"]
    changes = {"points.source": "image", "points.realism": None, "env_overrides": overrides}
    settings = settings.with_values({"device": "cpu", "physics.backend": args.physics, **changes})
    resolved = resolve(choose_platform(settings), args.num_envs)

    with open_env(resolved, prepare=add_imagers) as env, tempfile.TemporaryDirectory() as scratch:
        base: Any = env.unwrapped
        act = actor(resolved, env, checkpoint, Path(scratch))
        camera = StereoCamera(base)
        base.scene["points"]._realism = camera

        def on_step(step: int, most: int) -> None:
            if args.picture is not None and step == PICTURE_STEP:
                save_picture(camera.last, args.picture)
            if step % 20 == 0:
                print(f"{task}: step {step} of {most} at most", file=sys.stderr, flush=True)

        return evaluate(env, act, args.episodes, args.seed, on_step=on_step)


def save_picture(images: dict[str, Any], path: Path) -> None:
    """Draw the left image, the true depth, and the error of the matched one of the first environment."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    left, true, matched = (images[name][0] for name in ("left", "true", "matched"))
    is_matched = (matched > 0.0) & np.isfinite(true) & (true > 0.0)
    error = np.where(is_matched, 1e3 * (matched - true), np.nan)
    figure, axes = plt.subplots(1, 3, figsize=(18, 4.8), layout="constrained")
    shown = (
        ("left image", left, "gray", 0, 255),
        ("matched depth [m]", np.where(matched > 0.0, matched, np.nan), "viridis", 0.4, 1.8),
        ("error [mm]", error, "coolwarm", -20, 20),
    )
    for axis, (title, image, colors, low, high) in zip(axes, shown, strict=True):
        drawn = axis.imshow(image, cmap=colors, vmin=low, vmax=high)
        axis.set_title(title)
        axis.set_axis_off()
        figure.colorbar(drawn, ax=axis)
    figure.savefig(path, dpi=80)
    small = np.abs(error[is_matched])
    print(f"matched {100 * is_matched.mean():.0f} % of the pixels, error {np.median(small):.1f} mm in the median")


def main() -> int:
    """Judge each task, and print its success."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=pretrained_tasks())
    parser.add_argument("--policy", default="pretrained", help="pretrained, or the path of a run or a checkpoint")
    parser.add_argument("--physics", default="ovphysx")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--num_envs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--picture", type=Path, help="PNG of a frame's image and matched depth")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    for task in args.task:
        print(f"{task}: {judge(task, args)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
