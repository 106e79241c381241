# SPDX-License-Identifier: BSD-3-Clause
"""What must be installed for a run, checked in the parent: no torch, no simulator, no waiting."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.visualizers import settle_visualizers
from isaaclab_pc.physics.settings import INSTALL_ISAACSIM, resolve_backend
from isaaclab_pc.runners import require_library

__all__ = ["check_isaaclab", "check_runner", "resolve_device", "settle_platform"]


def check_isaaclab() -> None:
    """Refuse an Isaac Lab that this package was not built for.

    Raises:
        ConfigError: Isaac Lab is missing or its version is not 3.0.x.
    """
    try:
        version = metadata.version("isaaclab")
    except metadata.PackageNotFoundError:
        raise ConfigError("Isaac Lab is not installed: pip install 'isaaclab>=3.0,<3.1'.") from None
    if version.split(".")[:2] != ["3", "0"]:
        raise ConfigError(f"Isaac Lab {version} is installed, 3.0.x is needed: pip install 'isaaclab>=3.0,<3.1'.")


def resolve_device(device: str) -> str:
    """Turn ``auto`` into the first GPU where there is one, else the CPU.

    The driver is asked, not torch: the parent opens no CUDA context.

    Args:
        device: The value of ``device``.

    Returns:
        ``cpu`` or ``cuda:N``.
    """
    if device == "auto":
        return "cuda:0" if _gpu_count() > 0 else "cpu"
    return "cuda:0" if device == "cuda" else device


def _gpu_count() -> int:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return 0
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return pynvml.nvmlDeviceGetCount()
    finally:
        pynvml.nvmlShutdown()


def check_runner(name: str) -> None:
    """Refuse a learning library that is not installed.

    Args:
        name: The ``runner``.

    Raises:
        ConfigError: The message says what to install.
    """
    require_library(name)


def settle_platform(config: dict[str, Any], *, several: bool = False) -> None:
    """Write into a config the device and the physics backend that will run, and check its visualizers.

    Args:
        config: The run's plain config; ``device`` and ``physics.backend`` are changed, and ``num_envs=auto`` with a
            visualizer on.
        several: Whether ``device`` may name several GPUs.

    Raises:
        ConfigError: ``device`` names several GPUs where it may not, or the backend or a visualizer is not installed or
            cannot start here; the message says what to install and what works without it.
    """
    if "," in config["device"] and not several:
        raise ConfigError(
            f"device={config['device']}: training on several GPUs is not there yet; give one of them. scripts/scale.py "
            "takes several, and finds how many environments all of them bear."
        )
    config["device"] = resolve_device(config["device"])
    asked = config["physics"]["backend"]
    config["physics"]["backend"] = resolve_backend(asked, config["device"])
    if (asked, config["physics"]["backend"]) == ("physx", "ovphysx"):
        print(f"note: physics=physx runs as ovphysx; for Isaac Sim's PhysX: {INSTALL_ISAACSIM}", flush=True)
    settle_visualizers(config)
