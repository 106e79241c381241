# SPDX-License-Identifier: BSD-3-Clause
"""Warp's compiled kernels: where they are kept, and whether a start has to compile them. Loads no Warp."""

import os
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS
from isaaclab_pc.processes.caches import cache_root, check_writable, use_writable_caches
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import installed_versions

_COMPILED = {"cpu": ("*.o",), "cuda": ("*.cubin", "*.ptx")}
"""Files of Warp's compiled kernels, by kind of device."""


def shared_kernel_cache() -> Path:
    """Return the folder where Warp keeps its kernels, one folder inside of it for each version of Warp."""
    given = os.environ.get("WARP_CACHE_PATH")
    return Path(given) if given else cache_root() / "warp"


def check_kernel_cache() -> None:
    """Make sure that kernels can be kept, before a simulator starts.

    Where the user's caches cannot be written, temporary ones take their place. The folder that ``WARP_CACHE_PATH``
    names stays, and may be read-only if it holds kernels.

    Raises:
        ConfigError: ``WARP_CACHE_PATH`` cannot be written and holds no kernels, or no folder for caches can be written.
    """
    version = installed_versions(["warp-lang"]).get("warp-lang")
    if version is None:
        return
    use_writable_caches()
    if "WARP_CACHE_PATH" not in os.environ:
        return

    folder = shared_kernel_cache() / version
    try:
        check_writable(folder)
    except OSError as error:
        what = f"{folder}, where Warp keeps the kernels that it compiles, cannot be written ({error.strerror})"
        then = "set WARP_CACHE_PATH to a folder where you may write."
        if not any(folder.glob("*/")):
            raise ConfigError(f"{what}: {then}") from None
        current().warn(f"warning: {what}; where one is missing, {then}")


def announce_first_start(device: str) -> None:
    """Explain a long start, where no kernel was ever compiled for a device, ``cpu`` or ``cuda:N``."""
    kind = device.partition(":")[0]
    cache = shared_kernel_cache()
    if any(True for pattern in _COMPILED[kind] for _ in cache.glob(f"*/*/{pattern}")):
        return
    current().say(
        f"note: first start on this machine: kernels are compiled for {kind}, which takes minutes "
        f"({FIRST_BUILD_SECONDS / 60:g} at most with num_envs=auto); later starts take them from {cache}"
    )


def begin_build(settings: RunSettings) -> None:
    """Begin the phase in which a child builds, and compiles kernels where some are missing."""
    current().begin("build", f"building {settings.num_envs} environments of {settings.task}")
