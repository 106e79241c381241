# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the shared cache of Warp's kernels on a node's own disk.

A hundred nodes that compile into one network folder at once are slow, and in each other's way.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from isaaclab_pc.run.kernel_cache import UNFINISHED, copy_kernels, shared_kernel_cache
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.environment import environment_variables
from isaaclab_pc.utils.packages import installed_versions


@contextlib.contextmanager
def local_kernel_cache() -> Iterator[None]:
    """Let Warp use a cache of this process's own, on the node's disk, in this process and its children.

    It begins as a copy of the shared cache, and is removed afterwards; new kernels are copied back. The shared cache is
    only added to: an entry that is there stays, and a new one appears whole. Where copying fails, a warning says so,
    and the kernels are compiled.
    """
    version = installed_versions(["warp-lang"]).get("warp-lang")
    if version is None:
        yield
        return

    shared = shared_kernel_cache()
    disk = os.environ.get("SLURM_TMPDIR")
    with tempfile.TemporaryDirectory(
        prefix="isaaclab_pc-kernels-", dir=disk if disk and os.path.isdir(disk) else None, ignore_cleanup_errors=True
    ) as folder:
        local = Path(folder)
        copy_kernels(shared / version, local / version)
        try:
            with environment_variables({"WARP_CACHE_PATH": folder}):
                yield
        finally:
            try:
                _add_missing(local / version, shared / version)
            except OSError as error:
                current().warn(f"warning: compiled kernels are not kept: {error}")


def _add_missing(source: Path, target: Path) -> None:
    """Copy the entries that are missing, folders whole. Other nodes may do the same at the same time."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        goal = target / entry.name
        if UNFINISHED.search(entry.name):
            continue
        if entry.is_dir() and goal.is_dir():
            # A module that was compiled for another device before.
            _add_missing(entry, goal)
        elif not goal.exists():
            _copy_whole(entry, goal)


def _copy_whole(source: Path, goal: Path) -> None:
    """Copy a file or a folder so that it appears at once; where another process was faster, its copy stays."""
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=goal.parent, ignore_cleanup_errors=True) as folder:
            partial = Path(folder, goal.name)
            if source.is_dir():
                shutil.copytree(source, partial)
            else:
                shutil.copy2(source, partial)
            partial.rename(goal)
    except OSError:
        # A folder that another process has filled meanwhile is not replaced.
        if not goal.exists():
            raise
