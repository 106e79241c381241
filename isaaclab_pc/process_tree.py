# SPDX-License-Identifier: BSD-3-Clause
"""A child and all processes that it starts: their memory, and how all of them are ended (Linux)."""

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

__all__ = ["ProcessTree", "tied_to_this_process"]

_PROC = Path("/proc")
_MARK = "ISAACLAB_PC_CHILD"
"""Environment variable that marks a child's descendants, so that daemons among them are found as well."""

_IDLE_SHARE = 0.02
"""Largest share of the time for each kind of costly reading (list of all processes, PSS) while memory does not grow.

The child's speed is being measured, and this process shares its cores."""
_GROWING_SHARE = 0.25
"""The same for PSS while memory grows: the kernel walks every page for it, 3 ms per GiB."""
_GROWTH = 1.01
"""Factor by which memory must grow to count as growing."""
_NEWBORN_S = 2.0
"""Age below which a process may still be between vfork and exec [s]; on a busy machine 0.2 were seen."""

_END_S = 5.0
"""Time that the child has to end after a SIGKILL, and its descendants after it [s]."""


class _Process(NamedTuple):
    """One line of /proc/<pid>/stat. A pid alone may be reused; together with its start time it is not."""

    pid: int
    started: int
    parent: int
    session: int
    zombie: bool


class ProcessTree:
    """A child process in a session of its own, with its descendants.

    A context manager: whatever happens inside, all the processes are gone after it. The child also gets a signal when
    this process dies, even by SIGKILL.
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
        self._known: dict[int, _Process] = {}
        self._scan = _Paced()
        self._read_pss = _Paced()
        self._resident = 0
        self._peak = 0
        self._highest = 0  # the child's own, as far as it is in the peak

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

    def __enter__(self) -> "ProcessTree":
        """Return this tree."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every process of the tree."""
        self.end()

    @property
    def pids(self) -> list[int]:
        """Process ids of the child and its descendants that were alive at the last look."""
        return list(self._known)

    @property
    def host_bytes(self) -> int:
        """Most host memory that was seen in use at once [bytes]."""
        return self._peak

    def wait(self, seconds: float) -> int | None:
        """Wait for the child to end.

        Args:
            seconds: Longest time to wait [s].

        Returns:
            Its exit code, negative for a signal; None while it runs.
        """
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal to the child, not to its descendants; nothing happens where it has ended."""
        self._child.send_signal(number)

    def sample(self, budget: int | None = None) -> int:
        """Measure the host memory in use now.

        Pages that processes of the tree share count once (PSS). What a process shares with strangers, such as the
        libraries of another simulator, counts in full (RSS): the strangers may end. PSS is slow to read, RSS is fast
        and never less: it is enough to know that there is no new peak.

        Args:
            budget: What matters to the caller [bytes]: near it the reading is exact, whatever it costs.

        Returns:
            The peak since the child started [bytes], including peaks of the child itself between two samples.
        """
        if self._scan.due(_IDLE_SHARE):
            with self._scan:
                self._look()

        # The fast reading: is a new peak possible?
        usage = self._usage()
        resident = sum(rss for rss, _ in usage.values())
        now, highest = usage.get(self._child.pid, (0, 0))
        # What the child gave up longer ago may be shared with its children, and is counted there.
        between = highest - now if highest > self._highest else 0
        if resident + between <= self._peak:
            self._highest = highest
            return self._peak

        # It is: read what is shared, as often as it may cost.
        near = budget is not None and resident + between > budget
        share = _GROWING_SHARE if resident > _GROWTH * self._resident else _IDLE_SHARE
        if near or self._read_pss.due(share):
            self._resident = resident
            with self._read_pss:
                proportional = (
                    _proportional({pid: rss for pid, (rss, _) in usage.items() if rss}) if len(usage) > 1 else 0
                )
            largest = max((rss for rss, _ in usage.values()), default=0)
            self._peak = max(self._peak, max(proportional, largest) + between)
            self._highest = highest
        return self._peak

    def _usage(self) -> dict[int, tuple[int, int]]:
        """Return the memory of each process, now and at its highest [bytes].

        A process that started just now with the memory of its parent counts as 0: between vfork and exec it has no
        memory of its own, but shows its parent's.
        """
        usage = {pid: _rss(pid) for pid in self._known}
        newborn = (time.clock_gettime(time.CLOCK_BOOTTIME) - _NEWBORN_S) * os.sysconf("SC_CLK_TCK")
        for pid, process in self._known.items():
            if process.started > newborn and process.parent in usage:
                pairs = zip(usage[pid], usage[process.parent], strict=True)
                if all(math.isclose(own, parents, rel_tol=0.02) for own, parents in pairs):
                    usage[pid] = 0, 0
        return usage

    def end(self) -> None:
        """End every process of the tree at once and wait until they are gone.

        One that the kernel does not let go of, as where a driver hangs, is named on standard error and left behind.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.kill()
        self.wait(_END_S)

        give_up = time.monotonic() + _END_S
        # A process may start another while it is being ended, hence the loop.
        while True:
            strangers = self._look()
            strays = [*self._known, *(pid for pid in strangers if self._is_marked(pid))]
            if not strays:
                return
            if time.monotonic() > give_up:
                numbers = ", ".join(map(str, strays))
                print(f"warning: SIGKILL does not end the processes {numbers}: they are left behind", file=sys.stderr)
                return
            for pid in strays:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _look(self) -> list[int]:
        """Find the child and its descendants, those that left its session included once they have been seen.

        Returns:
            The process ids of all others.
        """
        alive = {process.pid: process for process in _processes() if not process.zombie}
        members = {
            pid: process
            for pid, process in alive.items()
            if pid == self._child.pid
            or process.session == self._child.pid
            or (pid in self._known and self._known[pid].started == process.started)
        }

        # And their children's children.
        found = True
        while found:
            found = {pid: p for pid, p in alive.items() if pid not in members and p.parent in members}
            members |= found

        self._known = members
        return [pid for pid in alive if pid not in members]

    def _is_marked(self, pid: int) -> bool:
        try:
            return f"{_MARK}={self._mark}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or another user's
            return False


class _Paced:
    """Limits costly work to a share of the time: `if work.due(share): with work: ...`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = float("-inf")
        self._ended = float("-inf")
        self._cost = 0.0

    def due(self, share: float) -> bool:
        """Whether the work may be done now without taking more than a share of the time."""
        return self._clock() >= self._ended + self._cost * (1 / share - 1)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._ended = self._clock()
        self._cost = self._ended - self._began


def _processes() -> list[_Process]:
    """Return all processes of the machine."""
    processes = []
    for entry in os.listdir(_PROC):
        if not entry.isdigit():
            continue
        try:
            stat = (_PROC / entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name stands in parentheses and may hold anything, even parentheses.
        state, parent, _, session, *rest = stat[stat.rindex(")") + 2 :].split()
        processes.append(_Process(int(entry), int(rest[15]), int(parent), int(session), state in "ZX"))
    return processes


def _rss(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process and its highest value ever [bytes]; zeros when it is gone."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return 0, 0
    values = {line[:6]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS:", "VmHWM:"))}
    return values.get("VmRSS:", 0), values.get("VmHWM:", 0)


def _proportional(resident: Mapping[int, int]) -> int:
    """Return the proportional memory of processes together, at one time [bytes].

    What a process shared moves to the others when it ends. Had it been read before, it would count twice: whenever one
    has ended meanwhile, the others are read again without it.

    Args:
        resident: The resident memory of each process [bytes].
    """
    while True:
        total = sum(_pss(pid, rss) for pid, rss in resident.items())
        alive = {pid: rss for pid, rss in resident.items() if _rss(pid)[0]}
        if len(alive) == len(resident):
            return total
        resident = alive


def _pss(pid: int, fallback: int) -> int:
    """Return the proportional memory of a process [bytes], or the fallback where the kernel does not tell."""
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return fallback if _rss(pid)[0] else 0  # it may have ended
    return fallback


def tied_to_this_process(argv: Sequence[str], on_our_death: signal.Signals, *, expendable: bool = False) -> list[str]:
    """Return the command line of a child that gets a signal when this process dies, even by SIGKILL.

    Args:
        argv: Program and arguments. Started through this file, the child is tied before it becomes the program.
        on_our_death: The signal.
        expendable: Whether it volunteers to be the first victim of the kernel's out-of-memory killer.
    """
    tie = (str(os.getpid()), str(int(on_our_death)), str(int(expendable)))
    return [sys.executable, "-I", "-S", __file__, *tie, *argv]


def _run_as_child() -> None:
    """Tie this process to its parent, then become the program that is named on the command line."""
    parent, death_signal, expendable, *argv = sys.argv[1:]
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, int(death_signal))
    if os.getppid() != int(parent):  # it ended before the line above
        return
    if int(expendable):
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    _run_as_child()
