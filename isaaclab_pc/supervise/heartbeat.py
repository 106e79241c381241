# SPDX-License-Identifier: BSD-3-Clause
"""Last activity of a training process, in a file that its supervisor reads. Loads no torch."""

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from isaaclab_pc.num_envs.gpu import OwnMemory
from isaaclab_pc.num_envs.memory import free_host_memory
from isaaclab_pc.utils.json_record import Count, JsonRecord

HEARTBEAT_NAME = "heartbeat.json"
"""The file's name in the run's folder."""

_LEAST_SECONDS = 1.0
"""Time between two beats of the same phase and iteration [s]: steps of an evaluation are many."""


@dataclass(frozen=True)
class Heartbeat(JsonRecord):
    """A sign of life."""

    pid: Count
    """Whose."""

    number: Count
    """Beats before it: a later one has a higher number."""

    phase: Literal["build", "train", "evaluate", "close"]
    """Activity."""

    iteration: Count = 0
    """Iterations completed."""

    max_iterations: Count = 0
    """The run's last iteration; 0 until it is known."""

    host_bytes: Count = 0
    """Memory of the process, resident [bytes]."""

    host_limit: Count = 0
    """Host memory that the process may have, on the machine where it runs [bytes]."""

    device_bytes: Count | None = None
    """GPU memory of the process [bytes]; None on the CPU."""

    device_peak: Count | None = None
    """The most that it had [bytes]; None on the CPU."""

    device_limit: Count | None = None
    """GPU memory that it may have: its own and what is free [bytes]; None on the CPU."""


class Heart:
    """Writes the beats of this process."""

    def __init__(self, folder: Path, device: str) -> None:
        """Beat for the first time: a run on ``cpu`` or ``cuda:N`` begins its build."""
        self._path = folder / HEARTBEAT_NAME
        self._device = device
        self.gpu = OwnMemory(device) if device.startswith("cuda") else None
        """GPU memory of this process; None on the CPU."""
        self._process = psutil.Process()
        self._written = 0.0
        self.last = Heartbeat(os.getpid(), 0, "build")
        """The newest beat, with the memory that was measured for it."""

        self._write(self.last)

    def beat(self, **changes: object) -> None:
        """Beat with changed fields of :class:`Heartbeat`."""
        beat = replace(self.last, **changes)  # pyright: ignore[reportArgumentType]
        if beat == self.last and time.monotonic() - self._written < _LEAST_SECONDS:
            return
        self._write(replace(beat, number=self.last.number + 1))

    def _write(self, beat: Heartbeat) -> None:
        self._written = time.monotonic()
        device, peak, device_limit = self._device_memory(beat.phase)
        resident = self._process.memory_info().rss
        self.last = replace(
            beat,
            host_bytes=resident,
            host_limit=resident + free_host_memory(),
            device_bytes=device,
            device_peak=peak,
            device_limit=device_limit,
        )
        # Not atomic: a reader that sees half of one reads it again. And a full disk must not end the training.
        with contextlib.suppress(OSError):
            self._path.write_text(self.last.to_json(), encoding="utf-8")

    def _device_memory(self, phase: str) -> tuple[int | None, int | None, int | None]:
        if self.gpu is None or phase == "build":
            return None, None, None
        import torch

        now, peak = self.gpu.read()
        free, _ = torch.cuda.mem_get_info(self._device)
        return now, peak, now + free
