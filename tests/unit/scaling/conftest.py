# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for the NVML module: GPUs whose figures a test sets."""

from types import SimpleNamespace

import pytest


class FakeNvml:
    """The part of `pynvml` that is used, with `used`, `compute` and `graphics` to set; `gpus` where they differ."""

    class NVMLError(Exception):
        """What NVML raises."""

    class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818
        """Where a GPU has no answer to a question."""

    class NVMLError_NoPermission(NVMLError):  # noqa: N801, N818
        """Where we may not ask a question."""

    def __init__(self) -> None:
        self.total, self.used = 8 << 30, 1 << 30
        self.compute: list[SimpleNamespace] = []
        self.graphics: list[SimpleNamespace] | None = []
        self.driver = True
        self.gpus: list[tuple[str, int, int]] | None = None
        """Model, total and used memory [bytes] of each GPU; None: two, of which all figures are the same."""
        self.memory_error: Exception | None = None
        """What is raised where the memory of a GPU is asked for."""
        self.instances: list[str | None] | None = None
        """Instances of each GPU, None where an index has none; None: MIG is off."""

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index >= (2 if self.gpus is None else len(self.gpus)):
            raise self.NVMLError("Invalid Argument")
        return f"gpu{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        if self.memory_error is not None and not handle.startswith("mig"):
            # A new one, as NVML's are: one that was raised before refers to the frames it went through.
            raise type(self.memory_error)(*self.memory_error.args)
        total, used = (self.total, self.used) if self.gpus is None else self.gpus[int(handle[3:])][1:]
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: N802
        return f"Fake {handle}" if self.gpus is None else self.gpus[int(handle[3:])][0]

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        if self.instances is None:
            raise self.NVMLError_NotSupported("Not Supported")
        return [int(bool(self.instances)), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
        return len(self.instances or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        instance = (self.instances or ())[index]
        if instance is None:
            raise self.NVMLError("Not Found")
        return instance

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "999.1"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: N802
        return self.compute

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: N802
        if self.graphics is None:
            raise self.NVMLError("Not Supported")
        return self.graphics

    @staticmethod
    def process(pid: int, memory: int | None) -> SimpleNamespace:
        """Return an entry of the process lists."""
        return SimpleNamespace(pid=pid, usedGpuMemory=memory)


@pytest.fixture
def nvml() -> FakeNvml:
    """A fake NVML with GPUs of 8 GiB, 1 GiB of them used."""
    return FakeNvml()
