# SPDX-License-Identifier: BSD-3-Clause
"""One trial in a child process, metered and bounded from outside."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isaaclab_pc.num_envs.classify import classify_exit, contact_overflow, out_of_memory_line
from isaaclab_pc.num_envs.gpu import Gpu, GpuUse
from isaaclab_pc.num_envs.memory import free_host_memory, memory_cgroups, oom_kills, taken_by_others
from isaaclab_pc.num_envs.trial import Outcome, Progress, TrainingPhase, Trial, format_size
from isaaclab_pc.processes.output_filter import OutputFilter
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.utils.files import end_of

INTERVAL = 0.05
"""Time between two looks at the child [s]."""
_TAIL = 4 << 20
"""How much of the log's end is searched for the cause of a failure [bytes]: PhysX writes thousands of lines after it.
"""


@dataclass(frozen=True)
class Budgets:
    """Memory and time that a child may use."""

    host: int
    """Host memory of its process tree [bytes]."""
    device: int | None = None
    """GPU memory of its process tree [bytes]; None on the CPU."""
    seconds: float | None = None
    """Time from start to result [s]; None: no limit."""
    build_seconds: float | None = None
    """Time from start until it trains [s], which then is no part of `seconds`; None: it is."""


def run_trial(
    argv: Sequence[str],
    num_envs: int,
    result_path: Path,
    log_path: Path,
    budgets: Budgets,
    gpu: Gpu | None = None,
    on_training: Callable[[], None] = lambda: None,
) -> Trial:
    """Run a child that tries a size, and watch it.

    The child writes a `Trial` to `result_path` when it is done, and is ended at once: simulators take seconds to close,
    and crash or hang while they do. It is looked at every `INTERVAL` and ended with all its descendants when it passes
    a budget. No process is left behind, whatever happens here.

    Args:
        argv: The child's program and arguments.
        num_envs: The size it tries.
        result_path: Where it writes its trial; an old file there is removed first.
        log_path: Where its output goes.
        budgets: Memory and time that it may use.
        gpu: The GPU it uses; None on the CPU.
        on_training: Called when it begins to train, where `Budgets.build_seconds` is given.

    Returns:
        The trial, with the metered memory, its progress and its repeated lines. One that trained while PhysX dropped
        contacts is an `Outcome.OVERFLOW` with `Trial.physx_buffers`.
    """
    for path in (result_path, phase_path(result_path)):
        path.unlink(missing_ok=True)
    log_path.write_bytes(b"")

    cgroups = memory_cgroups()
    kills_before = oom_kills(cgroups)
    if gpu is not None:
        gpu.start()
    host_free = free_host_memory()
    began = time.monotonic()
    with OutputFilter(log_path, inlets=1) as output, ProcessTree(argv, output.inlets[0]) as tree:
        trial, returncode = _Watch(tree, gpu, budgets, result_path, on_training).run()

    wall_seconds = time.monotonic() - began
    use = None if gpu is None else gpu.finish()
    # The parent's own verdict counts more than the child's.
    trial = trial or _read_result(result_path, num_envs)
    if trial is None:
        kills = oom_kills(cgroups) - kills_before
        text = end_of(log_path, _TAIL).decode(errors="replace")
        outcome, detail = classify_exit(returncode or 0, text, oom_kills=kills)
        trial = Trial(num_envs, outcome, detail=detail)
    elif trial.outcome is Outcome.ERROR:
        text = end_of(log_path, _TAIL).decode(errors="replace")
        line = out_of_memory_line(f"{trial.detail}\n{text}")
        trial = replace(trial, outcome=Outcome.OOM, detail=line) if line else trial
    elif trial.outcome in (Outcome.FITS, Outcome.OVERFLOW):
        trial = _with_dropped_contacts(trial, log_path)

    if use is not None:
        trial = _with_device_memory(trial, use)
    return replace(
        trial,
        num_envs=num_envs,
        wall_seconds=round(wall_seconds, 3),
        host_bytes=tree.host_bytes,
        host_budget=budgets.host,
        device_budget=budgets.device,
        taken_by_others=_taken_by_others(trial, budgets, host_free - free_host_memory(), use),
        log=str(log_path),
        progress=Progress.read_or_none(phase_path(result_path)),
        repeated_lines=tuple(output.repeats.floods()),
    )


def phase_path(result_path: Path) -> Path:
    """Return where a child keeps its `Progress`."""
    return result_path.with_suffix(".phase")


def _with_device_memory(trial: Trial, use: GpuUse) -> Trial:
    """Attach the GPU memory that was metered, or that the child's libraries held where that is more."""
    held = 0 if trial.memory is None else trial.memory.held_peak or 0
    if held > use.peak:
        return replace(trial, device_bytes=held, device_meter="libraries")
    return replace(trial, device_bytes=use.peak, device_meter=use.meter)


def _taken_by_others(trial: Trial, budgets: Budgets, host: int, use: GpuUse | None) -> int:
    """Return the memory that others took, of the host or the GPU, if that may be why a trial did not fit."""
    if trial.outcome is Outcome.OVER_BUDGET:
        # That of the host is metered without theirs.
        is_theirs = use is not None and budgets.device is not None and use.peak <= budgets.device
        return max(use.others, 0) if use is not None and is_theirs else 0
    if trial.outcome is not Outcome.OOM:
        return 0

    taken = [(host, budgets.host)]
    if use is not None and budgets.device is not None:
        taken.append((use.others, budgets.device))
    return taken_by_others(taken)


@dataclass
class _Watch:
    """Looks at a child until it is done or has to be ended."""

    tree: ProcessTree
    gpu: Gpu | None
    budgets: Budgets
    result_path: Path
    on_training: Callable[[], None]

    def __post_init__(self) -> None:
        self._builds = self.budgets.build_seconds is not None
        self._began = time.monotonic()

    def run(self) -> tuple[Trial | None, int | None]:
        """Return the parent's verdict, if any, and the exit code."""
        while True:
            # In this order: the last look has all its memory until it was done.
            is_done = Trial.read_or_none(self.result_path) is not None
            exceeded = self._exceeded_memory(exactly=is_done)
            if exceeded:
                return Trial(0, Outcome.OVER_BUDGET, detail=exceeded), None
            if is_done:
                return None, None

            returncode = self.tree.wait(INTERVAL)
            if returncode is not None:
                return None, returncode
            if (late := self._exceeded_time()) and Trial.read_or_none(self.result_path) is None:
                return Trial(0, Outcome.TIMEOUT, detail=late), None

    def _exceeded_memory(self, *, exactly: bool) -> str:
        """Measure, exactly or at least where it is near the budget; return the one that passed it, or ""."""
        host = self.tree.sample(0 if exactly else self.budgets.host)
        device = 0 if self.gpu is None else self.gpu.sample(self.tree.pids)

        if host > self.budgets.host:
            return f"passed {format_size(self.budgets.host)} of host memory"
        if self.budgets.device is not None and device > self.budgets.device:
            return f"passed {format_size(self.budgets.device)} of GPU memory"
        return ""

    def _exceeded_time(self) -> str:
        """Return which part took too long, the build or the rest, or an empty string."""
        progress = Progress.read_or_none(phase_path(self.result_path)) if self._builds else None
        if progress is not None and progress.phase is not TrainingPhase.BUILD:
            self._builds = False
            self._began = time.monotonic()
            self.on_training()

        seconds = self.budgets.build_seconds if self._builds else self.budgets.seconds
        if seconds is None or time.monotonic() - self._began <= seconds:
            return ""
        return f"not {'built' if self._builds else 'done'} after {seconds:.0f} s"


def _read_result(path: Path, num_envs: int) -> Trial | None:
    """Return the child's trial; None when it wrote none. A file that is no trial is an error of the child."""
    try:
        trial = Trial.read(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        return Trial(num_envs, Outcome.ERROR, detail=f"its result cannot be read: {error}")

    if trial.num_envs != num_envs:
        return replace(trial, outcome=Outcome.ERROR, detail=f"its result is for num_envs={trial.num_envs}")
    return trial


def _with_dropped_contacts(trial: Trial, log_path: Path) -> Trial:
    """Turn a trial into `Outcome.OVERFLOW` where its log says that PhysX dropped contacts."""
    with log_path.open(encoding="utf-8", errors="replace") as log:
        line, sizes = contact_overflow(log)
    if not sizes:
        return trial
    return replace(trial, outcome=Outcome.OVERFLOW, frames_per_second=0.0, detail=line, physx_buffers=sizes)
