# SPDX-License-Identifier: BSD-3-Clause
"""Where compiled kernels and measured times are kept, also where there is no home that can be written.

Warp, matplotlib and this package all keep theirs in ``XDG_CACHE_HOME``, or in ``~/.cache``.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path

from isaaclab_pc.errors import ConfigError

_NO_HOME = Path(os.devnull, "no-home")
"""A folder that nobody can make."""

_USERS = ("warp", "isaaclab_pc")
"""Folders below the root: one of them may be somebody else's."""


def cache_root() -> Path:
    """Return the folder of the user's caches, which may be missing: ``XDG_CACHE_HOME``, or ``~/.cache``."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        # A user without a name, as in a container.
        return _NO_HOME


def use_writable_caches() -> bool:
    """Where caches cannot be written, let this process and its children keep them in a folder for temporary files.

    It stays, so that the next start finds what was compiled. A warning names the variable that chooses another.

    Returns:
        Whether it was so; otherwise nothing was changed.

    Raises:
        ConfigError: No temporary folder can be written either.
    """
    if os.environ.get("XDG_CACHE_HOME") == "":
        # As if it were not set; Warp takes it for the working directory.
        del os.environ["XDG_CACHE_HOME"]
    root = cache_root()
    why = ""
    for folder in (root / name for name in _USERS):
        try:
            check_writable(folder)
        except OSError as error:
            why = f"{folder} cannot be written ({error.strerror})"
    if not why:
        return False

    then = "set XDG_CACHE_HOME to a folder where you may write"
    try:
        folder = _temporary_root()
        check_writable(folder)
    except OSError as error:
        raise ConfigError(f"{why}, and neither can a temporary folder ({error}): {then}.") from None
    os.environ["XDG_CACHE_HOME"] = str(folder)
    # Its settings lie elsewhere in the home, and it warns where it cannot make their folder.
    os.environ.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))
    _warn(f"warning: {why}; compiled kernels are kept in {folder} for now: {then}")
    return True


def check_writable(folder: Path) -> None:
    """Try to write where a folder is or will be made; nothing is left there.

    Raises:
        OSError: It cannot be written; permissions alone do not tell on a disk that is full or read-only.
    """
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    with tempfile.TemporaryDirectory(prefix=".isaaclab_pc-", dir=there) as scratch:
        (Path(scratch) / "probe").write_bytes(bytes(4096))


def _warn(text: str) -> None:
    try:
        from isaaclab_pc.terminal.screen import current
    except ImportError:
        # On a robot, where the operator runs without what our scripts need.
        print(text, file=sys.stderr)
    else:
        current().warn(text)


def _temporary_root() -> Path:
    """Return this user's own folder for caches among the temporary files, or a new one where that name is taken."""
    folder = Path(tempfile.gettempdir(), f"isaaclab_pc-cache-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # Code is loaded from there, and anybody may have made it.
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="isaaclab_pc-cache-"))
