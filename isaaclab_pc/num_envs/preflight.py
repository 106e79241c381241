# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a run's resolved config against ceilings of renderers and the machine, before a simulator starts.

Past most of these ceilings nothing fails: cameras show other environments, every step is slow.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.num_envs.memory import usable_cores
from isaaclab_pc.num_envs.trial import format_size
from isaaclab_pc.physics.backends import INSTALL_ISAACSIM
from isaaclab_pc.utils.packages import is_installed

RTX_PARTITIONS = 15_625
"""Scene partitions, one per environment, of the RTX renderers: Isaac Lab pull request 7573."""
RTX_TILES = 4096
"""Views of one camera that Isaac Sim's RTX renderer was seen to return rightly: of 8192 it left out 3093 and gave
environments each other's images (Isaac Lab pull request 7740, on an L40)."""
WARP_ELEMENTS = 2**31 - 1
"""Largest extent of a Warp array along one axis (``warp._src.types.check_array_shape``)."""
ROLLOUT_SHARE = 0.5
"""Largest share of the free memory that a rollout's observations take without a warning; minibatches come on top."""
BYTES_PER_PIXEL = 8
"""Depth and segmentation of one pixel: 4 bytes each."""
NEWTON_BYTES_PER_ENV = 100_000
PHYSX_BYTES_PER_ENV = 400_000
"""Host memory of one more environment on the CPU, at least: an arm, a table and a cube were measured to take 0.12 MB on
Newton and 0.7 MB on ovphysx."""

_RENDERERS = {"isaac_rtx": ("isaacsim", INSTALL_ISAACSIM), "ovrtx": ("ovrtx", "pip install 'isaaclab[ovrtx]'")}
"""Renderers that are installed separately: the module that each needs, and how to install it."""


def check_run(env_cfg: Any, free: int, *, trial: bool) -> list[str]:
    """Refuse a run that cannot work, before a simulator starts; return the warnings for its user.

    Isaac Lab's environment config is resolved, with ``scene.num_envs``, ``sim.device`` and ``sim.physics`` set; the
    device that learns has so much ``free`` memory [bytes].

    Raises:
        ConfigError: The first error.
        MemoryError: The same in a ``trial`` where fewer environments may solve it: the search goes on below.
    """
    refusal = MemoryError if trial else ConfigError
    _check_renderers(env_cfg)
    warnings = list(_check_rtx(env_cfg, refusal))
    _check_images(env_cfg, refusal)
    _check_environments(env_cfg, free, refusal)
    return [*warnings, *_check_threads()]


def check_samples(space: Any, plan: BatchPlan, replay_samples: int, free: int, *, trial: bool) -> list[str]:
    """Refuse more samples than the memory can hold, before a learner allocates them; return warnings.

    Args:
        space: Observation space of one environment. Clouds and images count, vectors do not.
        plan: The update's samples.
        replay_samples: Samples that learning keeps over iterations, as float16; 0: it keeps none.
        free: Free memory of the device that learns [bytes].
        trial: As for :func:`check_run`.

    Raises:
        ConfigError: They do not fit.
        MemoryError: The same in a trial.
    """
    spaces = getattr(space, "spaces", None)
    parts = spaces.values() if isinstance(spaces, Mapping) else [space]
    large = [part for part in parts if len(part.shape or ()) > 1]
    sample = sum(math.prod(part.shape) * (2 if replay_samples else part.dtype.itemsize) for part in large)
    samples = replay_samples or plan.samples_per_update
    size = samples * sample
    if size <= (1.0 if replay_samples else ROLLOUT_SHARE) * free:
        return []

    if replay_samples:
        message = (
            f"replay_samples={samples}: the clouds or images alone, {format_size(sample)} each, take "
            f"{format_size(size)} of {format_size(free)} free memory. Use at most replay_samples={free // sample}, or "
            "num_envs=auto, which finds how many fit."
        )
    else:
        message = (
            f"The clouds or images of one rollout ({samples} samples of {format_size(sample)}) take "
            f"{format_size(size)} of {format_size(free)} free memory. Use fewer samples per update: "
            "agent.samples_per_update (agent.params.config.samples_per_update of RL-Games), fewer environments where "
            f"the horizon of {plan.horizon} steps cannot shrink, or smaller observations: points.num_points, "
            "points.dtype=float16, env.history_length, the camera's width and height."
        )
    if size > free:
        raise MemoryError(message) if trial else ConfigError(message)
    return [message]


def _cameras(env_cfg: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield path, config and renderer of every camera of the scene and, of a direct environment, of its config."""
    for prefix, cfg in (("env.scene", env_cfg.scene), ("env", env_cfg)):
        for name, part in vars(cfg).items():
            if hasattr(part, "renderer_cfg"):
                yield f"{prefix}.{name}", part, getattr(part.renderer_cfg, "renderer_type", "")


def _rendered_cameras(env_cfg: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield path, config and renderer of the cameras that render; our tasks know which do not."""
    others = [f"env.scene.{name}" for name in env_cfg.unrendered()] if hasattr(env_cfg, "unrendered") else []
    return (camera for camera in _cameras(env_cfg) if camera[0] not in others)


def _check_renderers(env_cfg: Any) -> None:
    """Refuse renderers of cameras that are not installed: Kit would end the process minutes later."""
    for path, _, renderer in _cameras(env_cfg):
        module, install = _RENDERERS.get(renderer, ("", ""))
        if module and not is_installed(module):
            raise ConfigError(
                f"{path}.renderer_cfg is the renderer {renderer}, which needs {module}: {install}. Without it, give "
                "the camera isaaclab_newton's NewtonWarpRendererCfg in the task's config."
            )


def _check_rtx(env_cfg: Any, refusal: type[Exception]) -> Iterator[str]:
    """Refuse, or warn of, more environments than the RTX renderers keep apart, by Isaac Lab's documentation."""
    num_envs = env_cfg.scene.num_envs
    for path, camera, renderer in _rendered_cameras(env_cfg):
        # Isaac Lab gives an environment one partition, whatever the number of its cameras.
        partitioned = renderer == "ovrtx" or getattr(camera.renderer_cfg, "enable_scene_partitioning", False)
        if partitioned and num_envs > RTX_PARTITIONS:
            raise refusal(
                f"num_envs={num_envs}: {path}'s renderer {renderer} has {RTX_PARTITIONS} scene partitions, and further "
                f"environments share images without an error. Use at most num_envs={RTX_PARTITIONS}; with "
                f"num_envs=auto, scaling.max={RTX_PARTITIONS}."
            )
        elif renderer == "isaac_rtx" and num_envs > RTX_TILES:
            yield (
                f"num_envs={num_envs}: above {RTX_TILES} views of {path}, Isaac Sim's RTX renderer was seen to mix up "
                f"environments' images without an error. Look at them, or use num_envs={RTX_TILES} or less."
            )


def _check_images(env_cfg: Any, refusal: type[Exception]) -> None:
    """Refuse images too large for Newton's renderer, which flattens those of all environments into one Warp array."""
    num_envs = env_cfg.scene.num_envs
    for path, camera, renderer in _rendered_cameras(env_cfg):
        pixels = camera.width * camera.height
        if renderer == "newton_warp" and num_envs * pixels > WARP_ELEMENTS:
            raise refusal(
                f"num_envs={num_envs}: with {path}.width={camera.width} and {path}.height={camera.height} the images "
                f"have {num_envs * pixels} pixels, and a Warp array takes {WARP_ELEMENTS}. Use at most "
                f"num_envs={WARP_ELEMENTS // pixels} (with num_envs=auto, scaling.max), or smaller images."
            )


def _check_threads() -> Iterator[str]:
    """Warn of more threads than cores: torch counts the machine's cores and ignores the CPU quota of a container."""
    import torch

    threads = torch.get_num_threads()
    cores = usable_cores()
    if threads > cores:
        yield (
            f"torch uses {threads} threads on {cores} usable CPU cores, which slows both down: set the environment "
            f"variable OMP_NUM_THREADS={cores}."
        )


def _check_environments(env_cfg: Any, free: int, refusal: type[Exception]) -> None:
    """Refuse more environments or larger images than the memory can hold, before they fill it."""
    num_envs = env_cfg.scene.num_envs
    images = sum(BYTES_PER_PIXEL * camera.width * camera.height for _, camera, _ in _rendered_cameras(env_cfg))
    simulation = 0
    if str(env_cfg.sim.device).startswith("cpu"):
        is_newton = hasattr(env_cfg.sim.physics, "solver_cfg")
        simulation = NEWTON_BYTES_PER_ENV if is_newton else PHYSX_BYTES_PER_ENV

    size = num_envs * (images + simulation)
    if size > free:
        raise refusal(
            f"num_envs={num_envs}: the environments and their images take {format_size(size)} at least, and "
            f"{format_size(free)} are free. Use at most num_envs={free // (images + simulation)}, smaller images, or "
            "num_envs=auto."
        )
