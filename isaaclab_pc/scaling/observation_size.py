# SPDX-License-Identifier: BSD-3-Clause
"""How much memory an environment's clouds or depth images take, by its config."""

from typing import Any

__all__ = ["cloud_shape", "history_length", "kept_bytes", "observation_bytes", "observation_size"]

_CHANNELS = {"rgb": 3, "normals": 3, "segmentation": 1, "camera": 1}
"""Channels of a point's features; ``one_hot`` has as many as there are classes."""


def cloud_shape(points: Any) -> tuple[int, int, int]:
    """Return the points of one cloud, the values of a point, and the size of a value [bytes].

    Args:
        points: The ``PointCloudCfg``.
    """
    channels = 3 + sum(_CHANNELS.get(feature, len(points.classes)) for feature in points.features)
    rows = points.num_points + sum(appended.num_points for appended in points.append)
    return rows, channels, 4 if points.dtype == "float32" else 2


def history_length(env_cfg: Any) -> int:
    """Return the frames that a policy of this package's tasks observes at once; 1 for other tasks.

    Args:
        env_cfg: Isaac Lab's environment config.
    """
    return env_cfg.history_length if hasattr(env_cfg, "obs") else 1


def observation_bytes(env_cfg: Any) -> int:
    """Return the size of one sample's clouds or depth images, as the rollout keeps them [bytes]; 0 without either.

    Args:
        env_cfg: Isaac Lab's environment config.
    """
    return observation_size(env_cfg)[0]


def kept_bytes(env_cfg: Any) -> int:
    """Return the size of one sample's clouds or depth images in a replay, float16 [bytes]; 0 without either.

    Args:
        env_cfg: Isaac Lab's environment config.
    """
    if getattr(env_cfg, "obs", None) == "points":
        rows, channels, _ = cloud_shape(env_cfg.scene.points)
        return history_length(env_cfg) * 2 * rows * channels
    return observation_bytes(env_cfg) // 2


def observation_size(env_cfg: Any) -> tuple[int, str, str]:
    """Return the size of one sample's clouds or images, and how to change it.

    Args:
        env_cfg: Isaac Lab's environment config.

    Returns:
        The size [bytes], the setting it depends on, and what to set instead; 0 and empty texts without either.
    """
    obs = getattr(env_cfg, "obs", None)
    frames = history_length(env_cfg)
    fewer = f" or env.history_length={frames}" if frames > 1 else ""
    if obs == "points":
        points = env_cfg.scene.points
        rows, channels, itemsize = cloud_shape(points)
        smaller = " or points.dtype=float16" if points.dtype == "float32" else ""
        remedy = f"less than points.num_points={points.num_points}{fewer}{smaller}"
        return frames * rows * channels * itemsize, "points.num_points", remedy
    if obs == "depth":
        camera = env_cfg.scene.camera
        remedy = f"less than env.scene.camera.width={camera.width} and env.scene.camera.height={camera.height}{fewer}"
        return frames * camera.height * camera.width * 4, "env.scene.camera.width", remedy
    return 0, "", ""
