# SPDX-License-Identifier: BSD-3-Clause
"""A file system without locks, as NFS without its lock daemon or some Lustre are."""

import errno
import fcntl
import os

import pytest


def without_locks(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOLCK) -> None:
    """Let this process's file system have no locks.

    Args:
        monkeypatch: Gives them back.
        number: The error that tells so.
    """

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
