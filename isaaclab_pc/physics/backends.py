# SPDX-License-Identifier: BSD-3-Clause
"""Which physics backend runs: what the user asked for, and what is installed. Loads no simulator."""

import ctypes
import sys

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.packages import is_installed

INSTALL_ISAACSIM = "install Isaac Lab together with Isaac Sim (docs/installation.md)"
OVPHYSX_LIBRARIES = {"libGL.so.1": "libgl1", "libX11.so.6": "libx11-6", "libXt.so.6": "libxt6"}
"""Libraries that ovphysx loads and its wheels do not bring, and their packages on Debian and Ubuntu. It shows nothing,
but reads USD, which is linked to them."""
_INSTALL_OVPHYSX = "pip install 'isaaclab_pc[ovphysx]'"


def resolve_backend(backend: str, device: str) -> str:
    """Return ``ovphysx``, ``newton_mjwarp`` or ``isaacsim_physx`` for a selector, one of :data:`BACKENDS`.

    ``auto`` is ovphysx on a ``device`` cpu where it is installed, else Newton. ``physx`` is Isaac Sim's PhysX where
    Isaac Sim is installed, else ovphysx.

    Raises:
        ConfigError: The backend, or a library that it loads, is not installed; the message says what to install and
            what works without it.
    """
    chosen = _choose(backend, device)
    if chosen == "ovphysx" and sys.platform == "linux":
        # Its own error names a code, and the library in a line before it.
        missing = {name: package for name, package in OVPHYSX_LIBRARIES.items() if not _is_found(name)}
        if missing:
            raise ConfigError(
                f"physics=ovphysx needs {', '.join(missing)}, which this machine lacks: install them (Debian, Ubuntu: "
                f"apt install {' '.join(missing.values())}). Without that, physics=newton_mjwarp works."
            )
    return chosen


def _choose(backend: str, device: str) -> str:
    if backend == "auto":
        return "ovphysx" if device.startswith("cpu") and is_installed("ovphysx") else "newton_mjwarp"
    if backend in ("physx", "isaacsim_physx") and is_installed("isaacsim"):
        return "isaacsim_physx"
    if backend in ("physx", "ovphysx") and is_installed("ovphysx"):
        return "ovphysx"

    needed = {
        "physx": f"{_INSTALL_OVPHYSX} (PhysX without Isaac Sim), or {INSTALL_ISAACSIM}",
        "isaacsim_physx": INSTALL_ISAACSIM,
        "ovphysx": _INSTALL_OVPHYSX,
    }
    if backend in needed:
        works = "physics=ovphysx or physics=newton_mjwarp" if is_installed("ovphysx") else "physics=newton_mjwarp"
        raise ConfigError(f"physics={backend} is not installed: {needed[backend]}. Without it, use {works}.")
    return backend


def _is_found(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
