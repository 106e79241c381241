# SPDX-License-Identifier: BSD-3-Clause
"""Reads ``.npz`` files of strangers: no code in them is run, and none unpacks to more than it may. Loads no torch."""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np

NOT_READABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors that :func:`read_arrays` raises."""


def read_arrays(path: Path, most_bytes: int) -> dict[str, np.ndarray]:
    """Read an archive of arrays by name.

    Raises:
        Exception: One of :data:`NOT_READABLE`: it is no archive, or unpacks to more than ``most_bytes``.
    """
    _check_bytes(path, most_bytes)
    content = np.load(path, allow_pickle=False)
    if not isinstance(content, np.lib.npyio.NpzFile):
        raise ValueError("one array, not an archive")
    with content:
        return {name: content[name] for name in content.files}


def _check_bytes(path: Path, most_bytes: int) -> None:
    """Refuse an archive, or an array in it, that says it is larger than what it holds; unpacks headers only."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > most_bytes:
            raise ValueError(f"it unpacks to {total >> 20:,} MiB, more than such a file has")

        for member in members:
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} has the header of a larger array")
