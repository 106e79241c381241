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
    """Whether kernels of Warp or numba were compiled since this module was imported.

    Warp tells nobody, so this goes by the files of its cache, which other processes may write as well.
    """
    return _has_new_warp_binary() or _has_compiled_numba()


def _has_new_warp_binary() -> bool:
    warp = sys.modules.get("warp")
    if warp is None or warp.config.kernel_cache_dir is None:
        return False
    for path in Path(warp.config.kernel_cache_dir).glob("*/*"):
        # Another process may rename its binary.
        with suppress(FileNotFoundError):
            if path.suffix in _WARP_BINARIES and path.stat().st_mtime >= _IMPORTED:
                return True
    return False


def _has_compiled_numba() -> bool:
    """Whether numba compiled a function of this package that it could have found on disk."""
    if "numba" not in sys.modules:
        return False
    from numba.core.dispatcher import Dispatcher

    ours = [module for name, module in sys.modules.items() if name.startswith("isaaclab_pc.") and module is not None]
    functions = [value for module in ours for value in vars(module).values() if isinstance(value, Dispatcher)]
    return any(function.stats.cache_path and function.stats.cache_misses for function in functions)
