# SPDX-License-Identifier: BSD-3-Clause
"""Why a child ended: out of memory, a crash, or the user's code; and whether PhysX dropped contacts in it."""

import re
import signal
from collections.abc import Iterable

from isaaclab_pc.num_envs.trial import Outcome

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
            # A handle that cannot be made for lack of memory, as often as not with this name
            r"\bCUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate",
            r"\bCUDNN_STATUS_INTERNAL_ERROR_(?:HOST|DEVICE)_ALLOCATION_FAILED\b",
            # NCCL
            r"\bCuda failure\b.*\bout of memory\b",
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

_CONTACT_OVERFLOW = re.compile(
    "|".join(
        (
            # One of PhysX's streams; the size is printed where the GPU has counted it.
            r"\b(?P<stream>Contact|Patch|Friction patch|Force) buffer overflow detected\b"
            r"(?:, please increase its size to at least (?P<stream_size>\d+))?",
            r"\bPx\w*DynamicsMemoryConfig::(?P<stack>collisionStackSize) buffer overflow detected\b"
            r"(?:, please increase its size to at least (?P<stack_size>\d+))?",
            r"\bThe application needs to increase Px\w*DynamicsMemoryConfig::(?P<pairs>\w+)(?: buffers)? to "
            r"(?P<pairs_size>\d+) ?, otherwise, the simulation will miss interactions",
        )
    )
)
"""Messages of PhysX 5 where it drops contacts on a GPU. The texts are in its library, libPhysXGpu_64.so."""

_PHYSX_FIELDS = {
    "Contact": "gpu_max_rigid_contact_count",
    "Force": "gpu_max_rigid_contact_count",
    "Patch": "gpu_max_rigid_patch_count",
    "Friction patch": "gpu_max_rigid_patch_count",
    "collisionStackSize": "gpu_collision_stack_size",
    "foundLostPairsCapacity": "gpu_found_lost_pairs_capacity",
    "foundLostAggregatePairsCapacity": "gpu_found_lost_aggregate_pairs_capacity",
    "totalAggregatePairsCapacity": "gpu_total_aggregate_pairs_capacity",
}
"""Field of Isaac Lab's PhysX configs that sizes a buffer."""


def contact_overflow(lines: Iterable[str]) -> tuple[str, dict[str, int]]:
    """Find PhysX's messages about contacts that it drops on a GPU in a program's output.

    PhysX raises no error for them. Other solvers are read directly (:mod:`isaaclab_pc.physics.contacts`).

    Returns:
        The first of these lines, and the largest size that PhysX asked for, for all environments together (the
        collision stack: bytes), by field of ``sim.physics``; 0 where it named none. Both are empty where there are no
        such lines.
    """
    first = ""
    sizes: dict[str, int] = {}
    for line in lines:
        match = _CONTACT_OVERFLOW.search(line)
        name = match and (match["stream"] or match["stack"] or match["pairs"])
        if not match or name not in _PHYSX_FIELDS:
            continue

        first = first or line.strip()
        field = _PHYSX_FIELDS[name]
        size = int(match["stream_size"] or match["stack_size"] or match["pairs_size"] or 0)
        sizes[field] = max(sizes.get(field, 0), size)

    return first, sizes


def first_line(pattern: re.Pattern[str], text: str) -> str:
    """Return the first line that matches a pattern, stripped; empty where none does."""
    return next((line.strip() for line in text.splitlines() if pattern.search(line)), "")


def out_of_memory_line(text: str) -> str:
    """Return the first line of a program's output that says it ran out of memory; empty: there is none."""
    return first_line(_OUT_OF_MEMORY, text)


def classify_exit(returncode: int, output: str, *, oom_kills: int = 0) -> tuple[Outcome, str]:
    """Decide why a child ended that left no trial: an `Outcome` OOM, CRASH or ERROR, and one line that says why.

    The exit code is negative for a signal, as `subprocess` gives it; ``output`` is the end of its output, and the
    kernel killed ``oom_kills`` processes in the memory cgroup while the child ran.
    """
    line = out_of_memory_line(output)
    # Shells and launchers report death by signal N as exit code 128 + N.
    number = -returncode if returncode < 0 else returncode - 128
    name = next((known.name for known in signal.Signals if known == number), "")

    if returncode and oom_kills:
        return Outcome.OOM, "ended by the kernel's out-of-memory killer (memory cgroup)"
    if number == signal.SIGKILL:
        # Only an out-of-memory killer does that (kernel, systemd-oomd, SLURM): children that we end do not get here.
        return Outcome.OOM, "killed from outside (SIGKILL), most likely by an out-of-memory killer"
    if returncode and line:
        return Outcome.OOM, line
    if name:
        return Outcome.CRASH, f"ended by {name}"
    if returncode:
        # A Python traceback ends with its message.
        *_, last = ["no output", *(line.strip() for line in output.splitlines() if line.strip())]
        return Outcome.ERROR, f"exit code {returncode}: {last}"
    return Outcome.ERROR, "it ended without writing a result"
