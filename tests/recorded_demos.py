# SPDX-License-Identifier: BSD-3-Clause
"""Reads files of demonstrations."""

from pathlib import Path
from typing import Any

import h5py


def attributes_of(path: Path) -> list[dict[str, Any]]:
    """Return the attributes of the episodes of a file, in the order of recording."""
    with h5py.File(path, "r", locking=False) as file:
        data: Any = file["data"]
        # HDF5 lists demo_10 before demo_2.
        return [dict(data[f"demo_{index}"].attrs) for index in range(len(data))]
