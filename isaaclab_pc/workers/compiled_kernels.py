# SPDX-License-Identifier: BSD-3-Clause
"""Whether this process compiled kernels, or found them all on disk."""

import sys
import time
from contextlib import suppress
from pathlib import Path

_WARP_BINARIES = (".o", ".cubin", ".ptx")
"""Suffixes of Warp's compiled modules, each in a folder of its own inside the cache."""
_IMPORTED = time.time()
"""Time at which this module was imported, before anything was built [s since 1970]."""


def has_compiled_kernels() -> bool:
    """Whether kernels of Warp were compiled since this module was imported.

    Warp tells nobody, so this goes by the files of its cache, which other processes may write as well.
    """
    warp = sys.modules.get("warp")
    if warp is None or warp.config.kernel_cache_dir is None:
        return False
    for path in Path(warp.config.kernel_cache_dir).glob("*/*"):
        # Another process may rename its binary.
        with suppress(FileNotFoundError):
            if path.suffix in _WARP_BINARIES and path.stat().st_mtime >= _IMPORTED:
                return True
    return False
