# SPDX-License-Identifier: BSD-3-Clause
"""The one place that decides whether a child ran out of memory, crashed, or failed by the user's code."""

import re
import signal

from isaaclab_pc.scaling.trial import Outcome

__all__ = ["classify_exit", "out_of_memory_line"]

_OUT_OF_MEMORY = re.compile(
    "|".join(
        (
            # Python, NumPy and torch exceptions, C++ and the C library
            r"\b(?:OutOf|_Array)?MemoryError\b",
            r"\bstd::bad_alloc\b",
            r"\[Errno 12\]|\bCannot allocate memory\b",
            # CUDA runtime, driver and libraries; HIP
            r"\b(?:CUDA|HIP)\b.*\bout of memory\b",
            r"\bCUDA_ERROR_OUT_OF_MEMORY\b|\bcudaErrorMemoryAllocation\b",
            r"\bCU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED\b",
            # torch on the host
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
            r"insufficient shared memory \(shm\)",
            # Warp
            r"\bFailed to allocate \d+ bytes (?:on device|with CudaManagedAllocator)",
            # PhysX: old (`fail to`) and new (`failed to`) wording
            r"\bPx\w*(?:MemoryAllocator|MemoryAllocate|AllocatorCallback) fail(?:ed)? to allocate\b",
            r"PhysX.*\bout of memory\b|\bPxg\w+: failed to allocate\b|Failed to allocate pinned memory",
            # Vulkan, as Kit's renderer reports it
            r"\b(?:VK_)?ERROR_OUT_OF_(?:DEVICE|HOST|POOL)_MEMORY\b",
            r"\bOut of GPU memory\b",
            # The kernel and SLURM
            r"\boom-kill\b|\bOut Of Memory\b|\bOOM Killed\b",
        )
    )
)

_SIGNAL_EXIT = 128
"""Shells and launchers report death by signal N as exit code 128 + N."""


def out_of_memory_line(text: str) -> str:
    """Find the first line of a program's output that says it ran out of memory.

    Args:
        text: Output, any length.

    Returns:
        The line without surrounding blanks; empty when there is none.
    """
    return next((line.strip() for line in text.splitlines() if _OUT_OF_MEMORY.search(line)), "")


def classify_exit(returncode: int, output: str, *, oom_kills: int = 0) -> tuple[Outcome, str]:
    """Decide what ended a child that left no trial.

    Args:
        returncode: Exit code as `subprocess` gives it: negative for a signal.
        output: The end of what it printed.
        oom_kills: Kills that the memory cgroup counted while the child ran.

    Returns:
        `Outcome.OOM`, `Outcome.CRASH` or `Outcome.ERROR`, and one line that says why.
    """
    line = out_of_memory_line(output)
    number = -returncode if returncode < 0 else returncode - _SIGNAL_EXIT
    name = _signal_name(number)
    if returncode and oom_kills:
        return Outcome.OOM, "ended by the kernel's out-of-memory killer (memory cgroup)"
    if number == signal.SIGKILL:
        # Nobody but an out-of-memory killer (kernel, systemd-oomd, SLURM) kills a probe; our own kills never get here.
        return Outcome.OOM, "killed from outside (SIGKILL), most likely by an out-of-memory killer"
    if returncode and line:
        return Outcome.OOM, line
    if name:
        return Outcome.CRASH, f"ended by {name}"
    if returncode:
        return Outcome.ERROR, f"exit code {returncode}: {_last_line(output)}"
    return Outcome.ERROR, "it ended without writing a result"


def _signal_name(number: int) -> str:
    """Return the name of a signal, or an empty string when there is no such signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _last_line(text: str) -> str:
    """Return the last line that is not blank: where a Python traceback has its message."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
