# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: N802 (the names are NVML's)
"""A stand-in for `pynvml`: a driver whose GPUs a test chooses."""

import sys
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

# The library makes its classes of errors when it is imported, so type checkers do not know them.
_real: Any = pynvml


@dataclass
class FakeGpu:
    """A GPU, or an instance of one, as the driver tells of it. It is its own handle."""

    model: str = "Fake"
    total: int = 8 << 30
    """Memory [bytes]."""
    used: int = 1 << 30
    """How much of it all programs use [bytes]."""
    uuid: str = ""
    instances: "list[FakeGpu | None] | None" = None
    """Instances by index, None where an index has none; no list: the GPU cannot be divided (MIG)."""
    memory_error: type[Exception] | None = None
    """What is raised where its memory is asked for."""
    blocked: threading.Event | None = None
    """Where it is there, readings return once it is set."""
    compute: list[SimpleNamespace] = field(default_factory=list)
    """Processes that compute on it, made by `process`."""
    graphics: list[SimpleNamespace] | None = field(default_factory=list)
    """Processes that render on it; None: the driver does not tell."""


def equal_gpus(count: int) -> list[FakeGpu]:
    """Return GPUs of one model, 1 GiB of 8 GiB used, with the UUIDs GPU-0, GPU-1, ..."""
    return [FakeGpu(uuid=f"GPU-{index}") for index in range(count)]


def process(pid: int, memory: int | None) -> SimpleNamespace:
    """Return an entry of a GPU's lists of processes."""
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


class FakeNvml:
    """The part of `pynvml` that is used, with the real errors: it answers between init and shutdown alone."""

    NVMLError = _real.NVMLError
    NVMLError_NoPermission = _real.NVMLError_NoPermission
    NVMLError_NotSupported = _real.NVMLError_NotSupported
    NVMLError_GpuIsLost = _real.NVMLError_GpuIsLost

    def __init__(self, gpus: list[FakeGpu] | None, cuda: int = 12040, driver: str = "999.1") -> None:
        """Make a driver.

        Args:
            gpus: What it finds; None: there is no driver.
            cuda: The newest CUDA that it knows, 12040 for 12.4.
            driver: Its version.
        """
        self.gpus = gpus
        self.cuda = cuda
        self.driver = driver
        self.opened = 0
        """How often it was opened and not closed again."""

    def install(self, monkeypatch: pytest.MonkeyPatch, visible: str | None = None) -> None:
        """Let everybody import this for `pynvml`.

        Args:
            monkeypatch: Undoes it.
            visible: `CUDA_VISIBLE_DEVICES`; None: it is not set.
        """
        monkeypatch.setitem(sys.modules, "pynvml", self)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    def nvmlInit(self) -> None:
        if self.gpus is None:
            raise _real.NVMLError_DriverNotLoaded
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self._check_open()
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._check_open()
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._check_open()
        return self.cuda

    def nvmlDeviceGetCount(self) -> int:
        return len(self._found())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        gpus = self._found()
        if not 0 <= index < len(gpus):
            raise _real.NVMLError_InvalidArgument
        return gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        gpus = self._found()
        instances = [instance for gpu in gpus for instance in gpu.instances or () if instance is not None]
        for gpu in (*gpus, *instances):
            if gpu.uuid == uuid:
                return gpu
        raise _real.NVMLError_NotFound

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:
        self._check_open()
        return handle.model

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        self._check_open()
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> SimpleNamespace:
        self._check_open()
        if handle.blocked is not None:
            handle.blocked.wait()
        if handle.memory_error is not None:
            raise handle.memory_error
        return SimpleNamespace(total=handle.total, used=handle.used, free=handle.total - handle.used)

    def nvmlDeviceGetMigMode(self, handle: FakeGpu) -> list[int]:
        self._check_open()
        if handle.instances is None:
            raise _real.NVMLError_NotSupported
        # The mode that is on, and the one after the next reset of the GPU.
        return [int(bool(handle.instances))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: FakeGpu) -> int:
        self._check_open()
        return len(handle.instances or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: FakeGpu, index: int) -> FakeGpu:
        self._check_open()
        instance = (handle.instances or ())[index]
        if instance is None:
            raise _real.NVMLError_NotFound
        return instance

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        self._check_open()
        return handle.compute

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        self._check_open()
        if handle.graphics is None:
            raise _real.NVMLError_NotSupported
        return handle.graphics

    def _found(self) -> list[FakeGpu]:
        self._check_open()
        return self.gpus or []

    def _check_open(self) -> None:
        if not self.opened:
            raise _real.NVMLError_Uninitialized
