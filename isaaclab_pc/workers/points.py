# SPDX-License-Identifier: BSD-3-Clause
"""Write the settings of the clouds into the config of a task of this package."""

import functools
from collections.abc import Sequence
from typing import Any

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.settings import PointsSettings
from isaaclab_pc.workers.overrides import parse_value

_REALISM = "env.scene.points.realism."


def is_of_realism(override: str) -> bool:
    """Whether an override sets one error of the camera, which is there only after ``points.realism``."""
    return override.startswith(_REALISM)


def apply_points(env_cfg: Any, settings: PointsSettings, overrides: Sequence[str]) -> None:
    """Write ``points.*``, the ``env.*`` of :func:`is_of_realism` and the goal's points into a task's config.

    Raises:
        ConfigError: An override names no error of a camera, or a value that none can have.
    """
    points = env_cfg.scene.points
    # A workspace that is given is in the environment's frame; a task's own one stays in the frame that it was in.
    if settings.crop is not None:
        points.crop_frame = "env"
    elif settings.frame is not None:
        points.crop_frame = points.crop_frame or points.frame
    for name in ("num_points", "source", "sampler", "frame", "features", "dtype"):
        value = getattr(settings, name)
        if value is not None:
            setattr(points, name, value)

    if settings.crop is not None:
        points.crop_lower, points.crop_upper = zip(*settings.crop, strict=True)
    if settings.remove_robot is not None:
        others = tuple(name for name in points.remove if name != "robot")
        points.remove = ("robot", *others) if settings.remove_robot else others
    _apply_realism(points, settings.realism, [text for text in overrides if is_of_realism(text)])

    # The environment does it, too, but after the clouds' memory is planned.
    from isaaclab_pc.envs.point_cloud_env_cfg import append_goal

    append_goal(env_cfg)


def _apply_realism(points: Any, kind: str | None, overrides: Sequence[str]) -> None:
    # Isaac Lab's configs load no sooner than the worker's simulator.
    from isaaclab_pc.sensors import stereo, structured_light
    from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg, as_cfgs

    known_cameras = {"structured_light": structured_light, "stereo": stereo}
    if kind in ("mixed", "mixed_with_none"):
        points.realism = tuple(camera() for camera in known_cameras.values())
    elif kind is not None:
        points.realism = known_cameras[kind]() if kind in known_cameras else None

    cameras = as_cfgs(points.realism)
    if cameras:
        cameras += tuple(points.realism_of.values())
    if overrides and not cameras:
        raise ConfigError(
            f"{overrides[0]}: the camera has no errors. Give points.realism=structured_light or points.realism=stereo "
            "as well."
        )
    for override in overrides:
        key, _, text = override.partition("=")
        *owners, name = key.removeprefix(_REALISM).split(".")
        found = [functools.reduce(lambda part, field: getattr(part, field, None), owners, one) for one in cameras]
        known = {field: owner for owner in found for field in getattr(owner, "__dataclass_fields__", {})}
        if name not in known:
            raise ConfigError(f"{key}: {key.rpartition('.')[0]} has no field {name}: {closest(name, known)}")
        for owner in found:
            if name in getattr(owner, "__dataclass_fields__", {}):
                setattr(owner, name, parse_value(text))
    for camera in cameras:
        camera.check(_REALISM.rstrip("."))
    if kind == "mixed_with_none":
        # Only now: no override may give it an error.
        points.realism = (*as_cfgs(points.realism), DepthRealismCfg())
