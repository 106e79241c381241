# SPDX-License-Identifier: BSD-3-Clause
"""Watches one training process: reads its heartbeats, and ends it when it hangs or its memory runs out."""

import itertools
import math
import signal
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from isaaclab_pc.num_envs.trial import Progress, format_size
from isaaclab_pc.processes.child_process import GRACE_SECONDS
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.run.folder import LOG_NAME, PROGRESS_NAME
from isaaclab_pc.supervise.deaths import Death, DeathCause
from isaaclab_pc.supervise.heartbeat import HEARTBEAT_NAME, Heartbeat
from isaaclab_pc.supervise.oom_watch import OomWatch

_LOOK_SECONDS = 0.5
"""Time between two looks at the heartbeat [s]."""

_DUMP_SECONDS = 10.0
"""Time in which a hung process writes where it hangs [s]."""

_UNKILLABLE_SECONDS = 30.0
"""Time after a SIGKILL in which a process ends, unless it waits for a driver that hangs [s]."""

_HEADROOM = 0.95
"""Share of the memory at which it counts as used up."""

STARTUP_SECONDS = 1800.0
"""Longest time before the first iteration [s]: on a new machine, kernels of simulator and renderer compile."""

SHORTEST_STALL_SECONDS = 300.0
"""Shortest limit that follows from the iterations [s]: an evaluation or a slow disk is no stall."""

STALL_FACTOR = 20.0
"""The limit is this many times the median iteration."""

RECENT_ITERATIONS = 50
"""Iterations in the median."""


class WorkerWatch:
    """Is called by :func:`~isaaclab_pc.processes.child_process.run_child` while the process runs."""

    def __init__(
        self,
        folder: Path,
        stall_timeout: float | None,
        on_iteration: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with a process that is about to start; a new iteration's number is told to ``on_iteration``."""
        self.verdict: Death | None = None
        """Why this watch ended the process; None where it did not."""

        self._path = folder / HEARTBEAT_NAME
        self._progress_path = folder / PROGRESS_NAME
        # Those of the process before.
        for path in (self._path, self._progress_path):
            path.unlink(missing_ok=True)
        self._on_iteration = on_iteration
        self._clock = clock
        now = clock()
        self._next_look = now
        self._kill_at: float | None = None
        self._stall = StallWatch(stall_timeout, now)
        self._oom = OomWatch(now)
        self._leaks = {"host": LeakWatch(), "GPU": LeakWatch()}
        self._last: Heartbeat | None = None
        self._first_iteration: tuple[float, int] | None = None

    def __call__(self, child: ProcessTree) -> bool:
        """Look at the process, and act; return whether to give it up, as nothing ends it."""
        now = self._clock()
        if self._kill_at is not None:
            if now > self._kill_at:
                child.send_signal(signal.SIGKILL)
            return now > self._kill_at + _UNKILLABLE_SECONDS
        if now < self._next_look:
            return False

        self._next_look = now + _LOOK_SECONDS
        self._oom.look(now)
        self._read(now)
        if self._stall.is_stalled(now):
            phase, iteration = ("start", 0) if self._last is None else (self._last.phase, self._last.iteration)
            detail = (
                f"no progress for {self._stall.limit:.0f} s ({phase}, after iteration {iteration}); the stacks of its "
                f"threads are in {self._path.with_name(LOG_NAME)}"
            )
            self.verdict = Death(DeathCause.STALLED, detail)
            self._kill_at = now + _DUMP_SECONDS
            # Python's fault handler writes every thread's stack to the log, even while native code hangs.
            child.send_signal(signal.SIGABRT)
        elif leak := self._find_leak(now):
            self.verdict = Death(DeathCause.LEAK, leak)
            self._kill_at = now + GRACE_SECONDS
            # It writes a checkpoint.
            child.send_signal(signal.SIGTERM)
        return False

    def progress(self) -> Progress | None:
        """Return the last activity of the process; None where it has not told."""
        return Progress.read_or_none(self._progress_path)

    def recent_oom_kills(self) -> int:
        """Return how many processes the kernel has killed for lack of memory just now."""
        return self._oom.look(self._clock())

    def _read(self, now: float) -> None:
        beat = Heartbeat.read_or_none(self._path)
        before = self._last
        if beat is None or beat == before:
            return

        self._last = beat
        self._stall.progress(None if beat.phase == "build" else beat.iteration, now)
        # A process that resumes has the iterations of its checkpoint from the start.
        if before is not None and before.phase != "build" and beat.iteration > before.iteration:
            self._on_iteration(beat.iteration)
            self._first_iteration = self._first_iteration or (now, beat.iteration)
            for name, (size, _) in _memories(beat).items():
                self._leaks[name].add(now, size)

    def _find_leak(self, now: float) -> str:
        """Describe memory that grows so fast that a restart is due; empty where none does."""
        beat = self._last
        if beat is None or self._first_iteration is None:
            return ""
        began, first = self._first_iteration
        pace = (now - began) / max(beat.iteration - first, 1)
        to_end = pace * max(beat.max_iterations - beat.iteration, 0)
        for name, (_, limit) in _memories(beat).items():
            usable = int(_HEADROOM * limit)
            if self._leaks[name].must_act(usable, to_end):
                left = self._leaks[name].seconds_left(usable)
                return f"{name} memory grows and meets its limit of {format_size(limit)} in {left:.0f} s"
        return ""


def _memories(beat: Heartbeat) -> dict[str, tuple[int, int]]:
    """Return the memory of a process and its limit, of the host and, if it computes there, of the GPU [bytes]."""
    memories = {"host": (beat.host_bytes, beat.host_limit)}
    if beat.device_bytes is not None and beat.device_limit is not None:
        memories["GPU"] = (beat.device_bytes, beat.device_limit)
    return memories


class StallWatch:
    """Tells when a process has made no progress for too long."""

    def __init__(self, timeout: float | None, now: float) -> None:
        """Begin at a monotonic time [s] with a limit [s] for the training; None: it follows the iterations."""
        self._timeout = timeout
        self._last_progress = now
        self._iteration: int | None = None
        self._iteration_at = now
        self._durations: deque[float] = deque(maxlen=RECENT_ITERATIONS)

    def progress(self, iteration: int | None, now: float) -> None:
        """Note a sign of life, with the iterations completed; None while nothing is trained yet."""
        self._last_progress = now
        if iteration is None or iteration == self._iteration:
            return
        if self._iteration is not None and iteration > self._iteration:
            self._durations.append((now - self._iteration_at) / (iteration - self._iteration))
        self._iteration = iteration
        self._iteration_at = now

    @property
    def limit(self) -> float:
        """Longest time without progress now [s]."""
        if not self._durations:
            return max(self._timeout or 0.0, STARTUP_SECONDS)
        if self._timeout is not None:
            return self._timeout
        return max(STALL_FACTOR * statistics.median(self._durations), SHORTEST_STALL_SECONDS)

    def is_stalled(self, now: float) -> bool:
        """Tell whether the last progress is too long ago."""
        return now - self._last_progress > self.limit


class LeakWatch:
    """Tells when memory that grows from iteration to iteration is about to meet its limit."""

    SAMPLES = 20
    """Iterations that a slope needs."""

    WARM_UP = 5
    """First iterations, which allocate lasting buffers."""

    GROWTH = 1.25
    """Memory that has not grown by this factor since the warm-up does not leak, or a restart would not help."""

    LEAD_SECONDS = 180.0
    """Time before the limit is met at which to act [s]: three intervals between checkpoints."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen = 0
        self._first: int | None = None
        self._recent: deque[tuple[float, int]] = deque(maxlen=self.SAMPLES)

    def add(self, now: float, size: int) -> None:
        """Note the memory after an iteration [bytes] at a monotonic time [s]."""
        self._seen += 1
        if self._seen <= self.WARM_UP:
            return
        if self._first is None:
            self._first = size
        self._recent.append((now, size))

    def seconds_left(self, limit: int) -> float:
        """Return the time until memory that grows as it did meets a limit [bytes]; inf where it does not leak."""
        if self._first is None or len(self._recent) < self.SAMPLES:
            return math.inf
        size = self._recent[-1][1]
        if size < self.GROWTH * self._first:
            return math.inf

        # A single step up, such as a buffer that grew, has a median slope of 0.
        slope = statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(self._recent))
        return max(limit - size, 0) / slope if slope > 0 else math.inf

    def must_act(self, limit: int, seconds_to_end: float) -> bool:
        """Tell whether the limit [bytes] is near, and is met before the run's end [s]."""
        return self.seconds_left(limit) < min(self.LEAD_SECONDS, seconds_to_end)
