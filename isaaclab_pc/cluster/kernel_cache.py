# SPDX-License-Identifier: BSD-3-Clause
"""Warp's compiled kernels: whether there is a place for them, and on a node's own disk a copy of the shared cache.

A hundred nodes that compile into one network folder at once are slow, and in each other's way.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from isaaclab_pc.caches import cache_root, check_writable, use_writable_caches
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.packages import installed_versions
from isaaclab_pc.scaling.search_clock import FIRST_BUILD_SECONDS
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

__all__ = ["announce_first_start", "begin_build", "check_kernel_cache", "local_kernel_cache", "shared_kernel_cache"]

_COMPILED = {"cpu": ("*.o",), "cuda": ("*.cubin", "*.ptx")}
"""Files of Warp's compiled kernels, by kind of device."""

_UNFINISHED = re.compile(r"^\.|_p\d+_t\d+$")
"""Names of what Warp is still building, and of what is still being copied back."""


def shared_kernel_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where Warp keeps its kernels, one folder inside of it for each version of Warp.

    Args:
        environment: Environment variables.
    """
    given = environment.get("WARP_CACHE_PATH")
    if given:
        return Path(given)
    return cache_root(environment) / "warp"


def check_kernel_cache() -> None:
    """See to it that kernels can be kept, before a simulator starts.

    Where the user's caches cannot be written, temporary ones take their place, with what Warp has compiled so far: an
    image of a container may hold all kernels. The folder that ``WARP_CACHE_PATH`` names stays, and may be read alone if
    it holds kernels.

    Raises:
        ConfigError: ``WARP_CACHE_PATH`` cannot be written and holds no kernels, or no folder for caches can be written.
    """
    version = installed_versions(["warp-lang"]).get("warp-lang")
    if version is None:
        return
    replaced = use_writable_caches()
    folder = shared_kernel_cache() / version
    if "WARP_CACHE_PATH" not in os.environ:
        if replaced is not None and not folder.exists():
            _fill(replaced / "warp" / version, folder)
        return

    try:
        check_writable(folder)
    except OSError as error:
        what = f"{folder}, where Warp keeps the kernels that it compiles, cannot be written ({error.strerror})"
        then = "set WARP_CACHE_PATH to a folder where you may write."
        if not any(folder.glob("*/")):
            raise ConfigError(f"{what}: {then}") from None
        current().warn(f"warning: {what}; where one is missing, {then}")


def announce_first_start(device: str) -> None:
    """Say why a start takes long, where no kernel was ever compiled for a device.

    Args:
        device: ``cpu`` or ``cuda:N``, or several.
    """
    if _has_kernels(device):
        return
    current().say(
        f"note: first start on this machine: kernels are compiled for {_kind(device)}, which takes minutes "
        f"({FIRST_BUILD_SECONDS / 60:g} at most with num_envs=auto); later starts take them from "
        f"{shared_kernel_cache()}"
    )


def begin_build(settings: RunSettings) -> None:
    """Begin the phase in which a child builds; it is another one where no kernel was ever compiled for the device.

    Args:
        settings: What is built, device and physics backend chosen.
    """
    screen = current()
    what = f"building {settings.num_envs} environments of {settings.task}"
    if _has_kernels(settings.device):
        screen.begin("build", what)
    else:
        screen.begin("compile", f"compiling kernels and {what}")


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _has_kernels(device: str) -> bool:
    cache = shared_kernel_cache()
    return any(True for pattern in _COMPILED[_kind(device)] for _ in cache.glob(f"*/*/{pattern}"))


@contextlib.contextmanager
def local_kernel_cache() -> Iterator[None]:
    """Let Warp use a cache of this process's own, on the node's disk, in this process and its children.

    It begins with what the shared cache holds, and is gone afterwards; what was compiled is copied back. The shared
    cache is only added to: an entry that is there stays, and a new one appears whole. Where copying fails, a warning
    says so, and the kernels are compiled.
    """
    version = installed_versions(["warp-lang"]).get("warp-lang")
    if version is None:
        yield
        return

    shared = shared_kernel_cache()
    given = os.environ.get("WARP_CACHE_PATH")
    disk = os.environ.get("SLURM_TMPDIR")
    with tempfile.TemporaryDirectory(
        prefix="isaaclab_pc-kernels-",
        dir=disk if disk and os.path.isdir(disk) else None,
        ignore_cleanup_errors=True,
    ) as folder:
        local = Path(folder)
        _fill(shared / version, local / version)
        os.environ["WARP_CACHE_PATH"] = folder
        try:
            yield
        finally:
            if given is None:
                del os.environ["WARP_CACHE_PATH"]
            else:
                os.environ["WARP_CACHE_PATH"] = given
            with _warning("compiled kernels are not kept"):
                _add_missing(local / version, shared / version)


@contextlib.contextmanager
def _warning(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        current().warn(f"warning: {what}: {error}")


def _fill(shared: Path, local: Path) -> None:
    """Copy what the shared cache holds; where that fails, the local one begins empty."""
    if not shared.is_dir():
        return
    with _warning(f"the kernels in {shared} cannot be used"):
        try:
            shutil.copytree(shared, local, ignore=lambda _, names: [name for name in names if _UNFINISHED.search(name)])
        except OSError:
            shutil.rmtree(local, ignore_errors=True)
            raise


def _add_missing(source: Path, target: Path) -> None:
    """Copy what is not there yet, folders whole. Others may do the same at the same time."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        goal = target / entry.name
        if _UNFINISHED.search(entry.name):
            continue
        if entry.is_dir() and goal.is_dir():
            # A module that was compiled for another device before.
            _add_missing(entry, goal)
        elif not goal.exists():
            _copy_whole(entry, goal)


def _copy_whole(source: Path, goal: Path) -> None:
    """Copy a file or a folder so that it appears at once; where another process was faster, its copy stays."""
    partial = goal.with_name(f".{goal.name}.{uuid.uuid4().hex}")
    try:
        if source.is_dir():
            shutil.copytree(source, partial)
        else:
            shutil.copy2(source, partial)
        partial.rename(goal)
    except OSError:
        # A folder that another process has filled meanwhile is not replaced.
        if not goal.exists():
            raise
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
