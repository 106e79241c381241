# SPDX-License-Identifier: BSD-3-Clause
"""GPU memory of a process tree, read through NVML: this process opens no CUDA context for it."""

import contextlib
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import psutil

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.memory import resolve_budget
from isaaclab_pc.num_envs.trial import Meter
from isaaclab_pc.processes.deadline import DEADLINE_S, answer_of

_LOOK_S = 0.05
"""Time between two looks at memory that the driver takes back [s]."""
_LOOKS = 20
"""Most looks."""

_PROGRAM = """
import sys, torch
for _ in sys.stdin:
    print("\\n%d %d" % torch.cuda.mem_get_info(sys.argv[1]), flush=True)
"""
_FIRST_S = 120.0
"""Longest time until the first answer [s]: the child imports torch and opens a CUDA context."""
_END_S = 5.0
"""Time that the child has to end [s]."""


class _Memory(NamedTuple):
    """Memory of a GPU [bytes]."""

    total: int
    free: int

    @property
    def used(self) -> int:
        return self.total - self.free


class GpuUse(NamedTuple):
    """Use of a GPU by a process tree that has ended."""

    peak: int
    """Most memory at once [bytes]."""
    meter: Meter
    """Who told it."""
    others: int
    """By how much the memory of all other programs has grown meanwhile [bytes]; negative where they gave some back."""


class CudaMemory:
    """Asks a child that holds a CUDA context, of some hundred MiB of the GPU, for as long as this object lives."""

    def __init__(self, device: str) -> None:
        """Start the child."""
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Into the same pipe: nobody reads a second one, and a full one stops the child.
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._seconds = _FIRST_S
        # It also ends when this process dies: its input does.
        weakref.finalize(self, _end, self._child)

    def read(self) -> tuple[int, int]:
        """Return the memory that is free and the whole [bytes], of an instance of MIG its own.

        Raises:
            OSError: CUDA does not tell, or not in time.
        """
        try:
            free, total = answer_of(self._read, self._seconds)
        except TimeoutError as error:
            # Or the thread would read on.
            self._child.kill()
            raise OSError(f"CUDA gives {error}") from error
        self._seconds = DEADLINE_S
        return free, total

    def _read(self) -> tuple[int, int]:
        """Return the next line that is two numbers; libraries may write others before it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        last = "it ended without a word"
        with contextlib.suppress(BrokenPipeError):
            print(file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                return int(words[0]), int(words[1])
            last = line.strip() or last
        raise OSError(last)


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    # A process that the driver does not let go of stays.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


class Gpu:
    """One GPU, and the memory that a process tree uses of it.

    Every question to the driver has a deadline. Where it is not answered, or the memory cannot be read, each method
    raises a ConfigError.
    """

    def __init__(self, device: str, cuda_memory: Callable[[], tuple[int, int]] | None = None) -> None:
        """Open a GPU.

        Args:
            device: "cuda" or "cuda:N", as torch counts: `CUDA_VISIBLE_DEVICES` is respected. The order of GPUs is that
                of `CUDA_DEVICE_ORDER=PCI_BUS_ID`, which every child gets.
            cuda_memory: Returns free and total memory [bytes] where NVML may not tell them to us, as often of an
                instance of MIG; None: a child that opens a CUDA context.

        Raises:
            ConfigError: There is no such GPU, no driver, or the memory cannot be read.
        """
        import pynvml

        # It makes its classes of errors when it is imported, so type checkers do not know them.
        nvml: Any = pynvml
        self._nvml = nvml
        self._device = device

        index = int(device.partition(":")[2] or 0)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._hung: TimeoutError | None = None
        try:
            self._ask(nvml.nvmlInit)
            self._handle = self._ask(lambda: self._open(index, visible))
        except (nvml.NVMLError, IndexError, ValueError) as error:
            raise self._refusal(error) from error

        self._cuda_memory = cuda_memory
        self._asks_cuda = False
        self._shares_memory = False
        self.start()

    def _open(self, index: int, visible: str | None) -> Any:
        """Return the NVML handle of a device as CUDA counts them."""
        entry = str(index) if visible is None else [name.strip() for name in visible.split(",")][index]
        if entry.startswith(("MIG-", "GPU-")):
            handle = self._nvml.nvmlDeviceGetHandleByUUID(entry)
            return handle if entry.startswith("MIG-") else self._first_instance(handle)
        return self._first_instance(self._nvml.nvmlDeviceGetHandleByIndex(int(entry)))

    def _first_instance(self, handle: Any) -> Any:
        """Return the handle of the first instance of a GPU that is divided (MIG): CUDA shows no other. Else its own."""
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            is_divided = nvml.nvmlDeviceGetMigMode(handle)[0]
            for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if is_divided else 0):
                with contextlib.suppress(nvml.NVMLError):
                    return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        return handle

    @property
    def name(self) -> str:
        """Model, memory and driver: a measured answer is valid for these."""
        return f"{self.model} driver {self._ask(self._nvml.nvmlSystemGetDriverVersion)}"

    @property
    def model(self) -> str:
        """Model and total memory [bytes]: GPUs that have these in common can stand for each other."""
        return f"{self._ask(lambda: self._nvml.nvmlDeviceGetName(self._handle))} {self._memory().total}"

    def free(self) -> int:
        """Return the memory that is free now [bytes]."""
        return self._memory().free

    def start(self) -> None:
        """Begin to meter a process tree, which uses nothing yet."""
        self._used_before = self._memory().used
        self._growth = 0
        self._own_peak: int | None = None
        self._own_pids: set[int] = set()
        # In a container, the numbers of the host's processes may be listed. This process may be one that computes.
        self._strangers = self._told().keys() - {os.getpid()}

    def sample(self, pids: Iterable[int]) -> int:
        """Measure the memory that processes use now, and return the peak since `start` [bytes].

        Until the driver tells it of one of them, which it never does in most containers and where the GPU shares the
        machine's memory, the growth of the used memory since `start` stands in for it, others' included.
        """
        self._growth = max(self._growth, self.growth())
        told = self._told()
        own = told.keys() & set(pids) - self._strangers
        if own:
            self._own_pids |= own
            self._own_peak = max(self._own_peak or 0, sum(told[pid] for pid in own))
        return self._growth if self._own_peak is None else self._own_peak

    def finish(self) -> GpuUse:
        """Return the memory that the process tree used, which has ended.

        The growth that is left belongs to others, and is taken off the growth that stood in for the tree's memory.
        Others that took memory and gave it back are not seen.
        """
        others = self._settled() - self._used_before
        # A process that is still there was not of the tree.
        if self._own_peak is not None and not self._own_pids & self._told().keys():
            return GpuUse(self._own_peak, "process", others)
        return GpuUse(max(self._growth - others, 0), "machine" if self._shares_memory else "card", others)

    def _settled(self) -> int:
        """Return the used memory once the driver has taken back that of processes which ended [bytes]."""
        used = self._memory().used
        for _ in range(_LOOKS):
            time.sleep(_LOOK_S)
            before, used = used, self._memory().used
            if used >= before:
                return before
        return used

    def told_of(self, pid: int) -> int | None:
        """Return the memory of a process [bytes]; None where the driver does not tell it."""
        return self._told().get(pid)

    def growth(self) -> int:
        """Return the growth of the used memory since `start`, others' included [bytes]."""
        return self._memory().used - self._used_before

    def _told(self) -> dict[int, int]:
        """Return the memory [bytes] of each process of which the driver tells it."""
        return {} if self._shares_memory else self._ask(self._per_process)

    def _per_process(self) -> dict[int, int]:
        nvml = self._nvml
        processes = []
        for running in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            with contextlib.suppress(nvml.NVMLError):
                processes += running(self._handle)
        # A process that computes and renders is in both lists, with the same figure.
        return {process.pid: process.usedGpuMemory for process in processes if process.usedGpuMemory is not None}

    def _memory(self) -> _Memory:
        """Return the memory of the GPU, or the machine's where they share it."""
        if not self._shares_memory and not self._asks_cuda:
            try:
                memory = self._ask(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._handle))
                return _Memory(memory.total, memory.free)
            except self._nvml.NVMLError_NoPermission:
                self._asks_cuda = True
            except self._nvml.NVMLError_NotSupported:
                self._shares_memory = True
            except self._nvml.NVMLError as error:
                raise self._refusal(error) from error

        if self._asks_cuda:
            # Nobody needs a permission for that.
            if self._cuda_memory is None:
                self._cuda_memory = CudaMemory(self._device).read
            try:
                free, total = self._cuda_memory()
            except OSError as error:
                raise self._refusal(error) from error
            return _Memory(total, free)

        # Pages that the kernel could free count as free; cudaMemGetInfo would leave the page cache out.
        memory = psutil.virtual_memory()
        return _Memory(memory.total, memory.available)

    def _ask[Answer](self, question: Callable[[], Answer]) -> Answer:
        """Ask the driver; refuse the GPU where it does not answer."""
        try:
            if self._hung is not None:
                raise self._hung
            return answer_of(question, DEADLINE_S)
        except TimeoutError as error:
            # Each further question would wait as long.
            self._hung = error
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"device={self._device}: its memory cannot be read ({error}); check nvidia-smi and CUDA_VISIBLE_DEVICES "
            "(for an instance of MIG, its UUID from nvidia-smi -L), or choose num_envs yourself"
        )


def held_by_libraries(device: str, *, peak: bool) -> int:
    """Return the memory that torch and Warp hold on a GPU for this process, used or not [bytes].

    Its CUDA context, loaded kernels and PhysX's own allocations come on top. This process has a CUDA context on the
    device ``cuda:N``; with ``peak``, the most at any time is returned.
    """
    import torch
    import warp as wp

    torch_holds = torch.cuda.max_memory_reserved(device) if peak else torch.cuda.memory_reserved(device)
    pool = 0
    if wp.is_mempool_enabled(device):
        pool = wp.get_mempool_used_mem_high(device) if peak else wp.get_mempool_used_mem_current(device)
    # With this allocator, torch's memory is part of the same pool.
    is_shared = torch.cuda.get_allocator_backend() == "cudaMallocAsync"
    return max(torch_holds, pool) if is_shared else torch_holds + pool


class OwnMemory:
    """GPU memory of this process alone, whatever others do, as the driver tells it.

    Where the driver tells nothing, it is the memory of torch and Warp, and the rest that the process took while it was
    built: its CUDA context, kernels and PhysX's own allocations.
    """

    def __init__(self, device: str) -> None:
        """Begin, before this process has a CUDA context on ``cuda:N``."""
        self._device = device
        self._gpu: Gpu | None = None
        self._beside: int | None = None
        try:
            self._gpu = Gpu(device, cuda_memory=self._mem_get_info)
        except ConfigError:
            self._beside = 0

    def read(self) -> tuple[int, int]:
        """Return the memory that it has now, and its peak [bytes]; call it first when all is built."""
        held, peak = (held_by_libraries(self._device, peak=peak) for peak in (False, True))
        told = None
        try:
            if self._gpu is not None:
                told = self._gpu.told_of(os.getpid())
                if self._beside is None:
                    self._beside = max(self._gpu.growth() - held, 0)
        except ConfigError:
            self._gpu = None
        beside = max(told - held, 0) if told is not None else self._beside or 0
        return held + beside, peak + beside

    def hold_to(self, budget: float | int) -> None:
        """Let torch allocate no more than a budget leaves beside the rest of the process; call it when all is built.

        The budget is a fraction of the memory that is free without this process, or a size [bytes]. Raises MemoryError
        where nothing is left.
        """
        import torch

        free, total = self._mem_get_info()
        now, _ = self.read()
        allowed = resolve_budget(budget, free + now)
        left = allowed - now + torch.cuda.memory_reserved(self._device)
        if left <= 0:
            raise MemoryError(f"scaling.budget={budget}: {now} bytes of GPU memory are used, {allowed} are allowed")
        torch.cuda.set_per_process_memory_fraction(min(left / total, 1.0), self._device)

    def _mem_get_info(self) -> tuple[int, int]:
        import torch

        return torch.cuda.mem_get_info(self._device)
