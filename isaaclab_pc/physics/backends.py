# SPDX-License-Identifier: BSD-3-Clause
"""Which physics backend runs: what the user asked for, and what is installed. Loads no simulator."""

from __future__ import annotations

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.packages import is_installed

__all__ = ["INSTALL_ISAACSIM", "resolve_backend"]

INSTALL_ISAACSIM = "pip install 'isaaclab_pc[isaacsim]' with NVIDIA's package index"
_INSTALL_OVPHYSX = "pip install 'isaaclab_pc[ovphysx]'"


def resolve_backend(backend: str, device: str) -> str:
    """Turn a selector into the backend that will run.

    ``auto`` is ovphysx on the CPU where it is installed, else Newton. ``physx`` is Isaac Sim's PhysX where Isaac Sim
    is installed, else ovphysx.

    Args:
        backend: One of :data:`BACKENDS`.
        device: Simulation device, ``cpu`` or ``cuda:N``.

    Returns:
        ``ovphysx``, ``newton_mjwarp`` or ``isaacsim_physx``.

    Raises:
        ConfigError: The backend is not installed; the message says what to install and what works without it.
    """
    if backend == "auto":
        return "ovphysx" if device.startswith("cpu") and is_installed("ovphysx") else "newton_mjwarp"
    if backend == "physx":
        if not is_installed("isaacsim") and not is_installed("ovphysx"):
            raise ConfigError(
                f"physics=physx needs a PhysX: {_INSTALL_OVPHYSX} (without Isaac Sim), or {INSTALL_ISAACSIM}. "
                "Without either, physics=newton_mjwarp works."
            )
        return "isaacsim_physx" if is_installed("isaacsim") else "ovphysx"
    if backend == "isaacsim_physx" and not is_installed("isaacsim"):
        works = "physics=ovphysx (PhysX without Isaac Sim) and " if is_installed("ovphysx") else ""
        raise ConfigError(
            f"physics=isaacsim_physx needs Isaac Sim: {INSTALL_ISAACSIM}. Without it, {works}physics=newton_mjwarp "
            f"work{'' if works else 's'}."
        )
    if backend == "ovphysx" and not is_installed("ovphysx"):
        raise ConfigError(
            f"physics=ovphysx is not installed: {_INSTALL_OVPHYSX}. Without it, physics=newton_mjwarp works."
        )
    return backend
