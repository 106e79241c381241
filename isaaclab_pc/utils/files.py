# SPDX-License-Identifier: BSD-3-Clause
"""Files that a reader sees whole or not at all, whatever ends the writer; and locks, where the file system has them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isaaclab_pc.errors import ConfigError, error_chain

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a path beside a file, and move it there once the block ends and it is on the disk.

    Where the block raises, nothing is left of it, and an older file stays.

    Raises:
        OSError: The file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield partial

        _flush_to_disk(partial)
        partial.replace(path)
        # Only the folder's own flush makes the new name survive a crash of the machine.
        _flush_to_disk(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a UTF-8 text file with :func:`write_atomically`."""
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def locked_file(path: Path, instead: str, timeout: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file inside the block.

    Args:
        path: The file, which is there for its lock only, and is made where it is missing.
        instead: The next step where the file system has no locks.
        timeout: How long to wait for another process [s].

    Raises:
        filelock.Timeout: Another process holds it.
        ConfigError: The file system has no locks.
        OSError: The file cannot be made.
    """
    # filelock's own way out where there are no locks, a file that a process which is killed leaves behind, is none.
    # Here: registering the tasks, which loads this module, needs gymnasium alone.
    from filelock import FileLock

    lock = FileLock(path, timeout=timeout, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        why = f"its file system has no locks ({error.strerror})"
        raise ConfigError(f"{path} cannot be locked: {why}. {instead}") from None
    try:
        yield
    finally:
        lock.release()


def end_of(path: Path, most: int, begin: int = 0) -> bytes:
    """Return the end of a file, ``most`` bytes of it at most, and nothing before the byte ``begin``."""
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - most))
        return file.read()


def full_disk(error: BaseException) -> str:
    """Return what the system says of a full disk or quota, with the file, where an error came of one; else ""."""
    for cause in error_chain(error):
        if isinstance(cause, OSError) and cause.errno in _NO_ROOM:
            return f"{cause.strerror}: {cause.filename}" if cause.filename else str(cause.strerror)
    return ""


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
