# SPDX-License-Identifier: BSD-3-Clause
"""A child and all processes that it starts: their memory, and how all of them are ended (Linux)."""

import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import psutil

from isaaclab_pc.processes.death_signal import tied_to_this_process

_MARK = "ISAACLAB_PC_CHILD"
"""Environment variable that marks a child's descendants, so that daemons among them are found as well."""

_LOOK_SHARE = 0.02
"""Largest share of the time for looks at the tree: the child's speed is being measured, on the same cores."""
_GROWTH = 1.01
"""Factor by which the resident memory must grow between two looks for another exact reading."""
_NEWBORN_S = 2.0
"""Time after its first sight in which a process may still be between vfork and exec [s]."""

_END_S = 5.0
"""Time that the child has to end after a SIGKILL, and its descendants after it [s]."""


class ProcessTree:
    """A child process in a session of its own, with its descendants; a context manager that ends all of them.

    The child also gets a signal when this process dies, even by SIGKILL.
    """

    def __init__(
        self,
        argv: Sequence[str],
        output: IO[bytes] | int | None,
        environment: Mapping[str, str] | None = None,
        *,
        pass_fds: Sequence[int] = (),
        on_our_death: signal.Signals = signal.SIGKILL,
        expendable: bool = True,
        keep_stderr: bool = False,
    ) -> None:
        """Start the child.

        Args:
            argv: Program and arguments.
            output: Where its stdout and stderr go, a file or a descriptor; None: to ours. Its stdin is empty.
            environment: Its environment variables; None: ours. GPUs are counted by bus unless they say otherwise.
            pass_fds: Further descriptors that it gets.
            on_our_death: Signal that it gets when this process dies.
            expendable: Whether it volunteers to be the first victim of the kernel's out-of-memory killer.
            keep_stderr: Whether its stderr goes to ours all the same.

        Raises:
            OSError: The program cannot be started.
        """
        self._seen: dict[psutil.Process, float] = {}
        """When each living process of the tree was seen first [s]."""
        self.host_bytes = 0
        """Most host memory that was seen in use at once [bytes]."""
        self._resident = 0
        """Resident memory of the tree at the last exact reading [bytes]."""
        self._next_look = -math.inf

        self._mark = uuid.uuid4().hex
        self._child = subprocess.Popen(
            tied_to_this_process(argv, on_our_death, expendable=expendable),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None or keep_stderr else subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
            # As NVML counts them, so that a number means the same GPU here and in the child.
            env={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                **(os.environ if environment is None else environment),
                _MARK: self._mark,
            },
        )

    def __enter__(self) -> Self:
        """Return this tree."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every process of the tree."""
        self.end()

    @property
    def pids(self) -> list[int]:
        """Process ids of the child and its descendants that were alive at the last look."""
        return [process.pid for process in self._seen]

    def wait(self, seconds: float) -> int | None:
        """Wait up to ``seconds`` [s]; return the exit code, negative for a signal, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal to the child, not to its descendants; nothing happens where it has ended."""
        self._child.send_signal(number)

    def sample(self, budget: int | None = None) -> int:
        """Measure the host memory in use now.

        Pages that the tree's processes share count once (PSS); what a process shares with strangers, who may end,
        counts in full (RSS). A PSS takes 3 ms per GiB, so exact readings are few; RSS is fast and never less.

        Args:
            budget: Near it the reading is exact, whatever it costs [bytes].

        Returns:
            The peak since the child started [bytes], including peaks of the child itself between two samples.
        """
        highest = _highest_resident(self._child.pid)
        usage = self._usage()
        near = budget is not None and max(highest, sum(usage.values())) >= budget
        began = time.monotonic()
        due = near or began >= self._next_look
        if due:
            self._look()
            usage = self._usage()

        resident = sum(usage.values())
        if due or resident > _GROWTH * self._resident:
            self._resident = resident
            if resident > self.host_bytes:
                self.host_bytes = max(
                    self.host_bytes, _proportional([process for process, size in usage.items() if size])
                )
        self.host_bytes = max(self.host_bytes, highest, *usage.values())
        if due:
            ended = time.monotonic()
            self._next_look = ended + (ended - began) * (1 / _LOOK_SHARE - 1)
        return self.host_bytes

    def _usage(self) -> dict[psutil.Process, int]:
        """Return the resident memory of each process [bytes]."""
        usage = {process: _resident(process) for process in self._seen}
        sizes = {process.pid: size for process, size in usage.items()}
        for process, first_seen in self._seen.items():
            # Between vfork and exec a process shows its parent's memory as its own.
            if time.monotonic() - first_seen < _NEWBORN_S:
                with suppress(psutil.Error):
                    if math.isclose(sizes.get(process.ppid(), 0), usage[process], rel_tol=0.02):
                        usage[process] = 0
        return usage

    def end(self) -> None:
        """End every process of the tree at once and wait until they are gone.

        One that the kernel keeps, as where a driver hangs, is named on standard error and left behind.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.kill()
        self.wait(_END_S)

        give_up = time.monotonic() + _END_S
        # A process may start another while it is being ended, hence the loop. Daemons are known by their mark alone.
        while self._look(filter(self._is_marked, psutil.process_iter())):
            if time.monotonic() > give_up:
                numbers = ", ".join(map(str, self.pids))
                print(f"warning: SIGKILL does not end the processes {numbers}: they are left behind", file=sys.stderr)
                return
            for process in self._seen:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(0.01)

    def _look(self, others: Iterable[psutil.Process] = ()) -> bool:
        """Find the child, its descendants and other candidates; return whether any is alive."""
        found = {*self._seen, *others}
        with suppress(psutil.Error):
            child = psutil.Process(self._child.pid)
            found |= {child, *child.children(recursive=True)}
        now = time.monotonic()
        self._seen = {process: self._seen.get(process, now) for process in found if _is_alive(process)}
        return bool(self._seen)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(_MARK) == self._mark
        except psutil.Error:  # gone, or another user's
            return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _highest_resident(pid: int) -> int:
    """Return the highest resident memory that a process ever had, which psutil does not tell [bytes]."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _proportional(processes: Sequence[psutil.Process]) -> int:
    """Return the proportional memory of several processes together, at one time [bytes]; 0 for one."""
    # What a process shared moves to the others when it ends: where one has ended meanwhile, the others are read again.
    while len(processes) > 1:
        total = sum(map(_pss, processes))
        alive = [process for process in processes if _resident(process)]
        if len(alive) == len(processes):
            return total
        processes = alive
    return 0


def _pss(process: psutil.Process) -> int:
    """Return the proportional memory of a process [bytes], or the resident one where the kernel does not tell."""
    try:
        return process.memory_full_info().pss
    except psutil.Error:
        return _resident(process)
