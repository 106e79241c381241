# SPDX-License-Identifier: BSD-3-Clause
"""GPU memory of a process tree, read through NVML: this process opens no CUDA context for it."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from isaaclab_pc.errors import ConfigError

__all__ = ["Gpu"]


class Gpu:
    """One GPU and what a process tree uses of it."""

    def __init__(self, device: str, environment: Mapping[str, str] = os.environ, nvml: Any = None) -> None:
        """Open a GPU.

        Args:
            device: "cuda" or "cuda:N", as torch counts: `CUDA_VISIBLE_DEVICES` is respected. GPUs of
                different models are in the same order here as in CUDA only with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
            environment: Environment variables.
            nvml: The NVML module; None: `pynvml` (nvidia-ml-py).

        Raises:
            ConfigError: There is no such GPU, or no driver.
        """
        if nvml is None:
            import pynvml as nvml
        self._nvml = nvml

        index = int(device.partition(":")[2] or 0)
        try:
            nvml.nvmlInit()
            self._handle = self._open(index, environment.get("CUDA_VISIBLE_DEVICES"))
        except (nvml.NVMLError, IndexError, ValueError) as error:
            raise ConfigError(
                f"device={device}: its memory cannot be read ({error}); check nvidia-smi and CUDA_VISIBLE_DEVICES, "
                "or choose num_envs yourself"
            ) from error

        self._used_before = self._memory().used
        self._peak = 0

    def _open(self, index: int, visible: str | None) -> Any:
        """Return the NVML handle of a device as CUDA counts them."""
        if visible is None:
            return self._nvml.nvmlDeviceGetHandleByIndex(index)
        entry = [name.strip() for name in visible.split(",")][index]
        if entry.startswith(("GPU-", "MIG-")):
            return self._nvml.nvmlDeviceGetHandleByUUID(entry)
        return self._nvml.nvmlDeviceGetHandleByIndex(int(entry))

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

        Where the driver does not tell per process (in most containers), the growth of the device's used memory since
        `start` stands in for it; other programs that start on the GPU in the meantime count then as well.

        Args:
            pids: Process ids of the tree.

        Returns:
            The peak since `start` [bytes].
        """
        used = self._used_by(set(pids))
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

    def _memory(self) -> Any:
        return self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
