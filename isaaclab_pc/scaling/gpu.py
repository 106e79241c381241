# SPDX-License-Identifier: BSD-3-Clause
"""GPU memory of a process tree, read through NVML: this process opens no CUDA context for it."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import psutil

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.cuda_memory import CudaMemory

__all__ = ["Gpu"]


class _Memory(NamedTuple):
    """Memory of a GPU [bytes]."""

    total: int
    used: int
    free: int


class Gpu:
    """One GPU and what a process tree uses of it."""

    def __init__(
        self,
        device: str,
        environment: Mapping[str, str] = os.environ,
        nvml: Any = None,
        *,
        cuda_memory: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """Open a GPU.

        Args:
            device: "cuda" or "cuda:N", as torch counts: `CUDA_VISIBLE_DEVICES` is respected. GPUs are in the same
                order here as in CUDA with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, which every child gets. Of a GPU that is
                divided (MIG), the first instance is taken, as CUDA does.
            environment: Environment variables.
            nvml: The NVML module; None: `pynvml` (nvidia-ml-py).
            cuda_memory: Returns free and total memory [bytes] where NVML may not tell them to us, as often of an
                instance of MIG; None: a child that opens a CUDA context.

        Raises:
            ConfigError: There is no such GPU, no driver, or the memory cannot be read.
        """
        if nvml is None:
            import pynvml as nvml
        self._nvml = nvml
        self._device = device

        index = int(device.partition(":")[2] or 0)
        try:
            nvml.nvmlInit()
            self._handle = self._open(index, environment.get("CUDA_VISIBLE_DEVICES"))
        except (nvml.NVMLError, IndexError, ValueError) as error:
            raise self._refusal(error) from error

        self._cuda_memory = cuda_memory
        self._asks_cuda = False
        self._shares_memory = False
        self._used_before = self._memory().used
        self._peak = 0

    def _open(self, index: int, visible: str | None) -> Any:
        """Return the NVML handle of a device as CUDA counts them."""
        entry = str(index) if visible is None else [name.strip() for name in visible.split(",")][index]
        if entry.startswith("MIG-"):
            return self._nvml.nvmlDeviceGetHandleByUUID(entry)
        if entry.startswith("GPU-"):
            return self._first_instance(self._nvml.nvmlDeviceGetHandleByUUID(entry))
        return self._first_instance(self._nvml.nvmlDeviceGetHandleByIndex(int(entry)))

    def _first_instance(self, handle: Any) -> Any:
        """Return the handle of the first instance of a GPU that is divided (MIG): CUDA shows no other. Else its own."""
        nvml = self._nvml
        try:
            if not nvml.nvmlDeviceGetMigMode(handle)[0]:
                return handle
            count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
        except nvml.NVMLError:
            return handle

        for index in range(count):
            try:
                return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError:
                continue
        return handle

    @property
    def name(self) -> str:
        """Model, memory and driver: a measured answer is valid for these."""
        return f"{self.model} driver {self._nvml.nvmlSystemGetDriverVersion()}"

    @property
    def model(self) -> str:
        """Model and total memory [bytes]: GPUs that have these in common can stand for each other."""
        return f"{self._nvml.nvmlDeviceGetName(self._handle)} {self._memory().total}"

    def free(self) -> int:
        """Return the memory that is free now [bytes]."""
        return self._memory().free

    def start(self) -> None:
        """Begin to meter a new process tree, which uses nothing yet."""
        self._used_before = self._memory().used
        self._peak = 0

    def sample(self, pids: Iterable[int]) -> int:
        """Measure the memory that processes use now.

        Where the driver does not tell per process (in most containers), or the GPU shares the machine's memory, the
        growth of the used memory since `start` stands in for it; what other programs take in the meantime counts then
        as well.

        Args:
            pids: Process ids of the tree.

        Returns:
            The peak since `start` [bytes].
        """
        used = None if self._shares_memory else self._used_by(set(pids))
        if used is None:
            used = max(self._memory().used - self._used_before, 0)
        self._peak = max(self._peak, used)
        return self._peak

    def _used_by(self, pids: set[int]) -> int | None:
        """Return the memory the driver accounts to these processes [bytes], or None when it knows none of them."""
        per_pid: dict[int, int] = {}
        for running in (
            self._nvml.nvmlDeviceGetComputeRunningProcesses,
            self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            try:
                processes = running(self._handle)
            except self._nvml.NVMLError:
                continue
            for process in processes:
                if process.pid in pids and process.usedGpuMemory is not None:
                    # A process that computes and renders is in both lists, with the same figure.
                    per_pid[process.pid] = max(per_pid.get(process.pid, 0), process.usedGpuMemory)
        return sum(per_pid.values()) if per_pid else None

    def _memory(self) -> _Memory:
        """Return the memory of the GPU, or the machine's where they share it.

        Raises:
            ConfigError: The driver does not tell.
        """
        if not self._shares_memory and not self._asks_cuda:
            try:
                memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
                return _Memory(memory.total, memory.used, memory.free)
            except self._nvml.NVMLError_NoPermission:
                self._asks_cuda = True
            except self._nvml.NVMLError_NotSupported:
                self._shares_memory = True
            except self._nvml.NVMLError as error:
                raise self._refusal(error) from error

        if self._asks_cuda:
            return self._memory_by_cuda()

        # What the kernel could free counts as free; cudaMemGetInfo would leave the page cache out.
        memory = psutil.virtual_memory()
        return _Memory(memory.total, memory.total - memory.available, memory.available)

    def _memory_by_cuda(self) -> _Memory:
        """Return the memory as CUDA tells it, which has no permission to ask for.

        Raises:
            ConfigError: CUDA does not tell.
        """
        if self._cuda_memory is None:
            self._cuda_memory = CudaMemory(self._device).read
        try:
            free, total = self._cuda_memory()
        except OSError as error:
            raise self._refusal(error) from error
        return _Memory(total, total - free, free)

    def _refusal(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"device={self._device}: its memory cannot be read ({error}); check nvidia-smi and CUDA_VISIBLE_DEVICES "
            "(for an instance of MIG, its UUID from nvidia-smi -L), or choose num_envs yourself"
        )
