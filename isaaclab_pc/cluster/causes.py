# SPDX-License-Identifier: BSD-3-Clause
"""Why a training process ended before its time, and what to do about it. Pure: the supervisor acts."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from isaaclab_pc.launch.child_process import ExitCode
from isaaclab_pc.scaling.classify import classify_exit
from isaaclab_pc.scaling.retry import smaller_chunk
from isaaclab_pc.scaling.trial import Outcome, Progress
from isaaclab_pc.settings import SuperviseSettings

__all__ = ["LOST_WORKER", "Cause", "Death", "Restart", "choose_restart", "classify_death"]

_LOST_DEVICE = re.compile(
    r"CUDA error: (?:unspecified launch failure|hardware stack error|uncorrectable ECC error|an illegal instruction)"
    r"|\bCUDA_ERROR_(?:LAUNCH_FAILED|ECC_UNCORRECTABLE|DEVICE_UNAVAILABLE|HARDWARE_STACK_ERROR|NVLINK_UNCORRECTABLE)\b"
    r"|\b(?:VK_)?ERROR_DEVICE_LOST\b|\bGPU is lost\b|\bhas fallen off the bus\b"
)
"""Messages of CUDA, Vulkan and NVML about a lost GPU; a new process may have it again, or another one."""


LOST_WORKER = "a Ray worker was lost"
"""What :mod:`isaaclab_pc.cluster.ray_train` logs where no process of ours failed."""

_LOST_RANK = re.compile(
    r"\bgloo\b.*(?:[Cc]onnection|Read error|Timed out)"
    rf"|\b{LOST_WORKER}\b"
    r"|\bnccl(?:RemoteError|SystemError)\b|\bNCCL communicator was aborted\b|\bcollective operation timeout\b"
)
"""What is logged of a rank that is gone, by Gloo and NCCL, too."""


class Cause(StrEnum):
    """Why a training process ended before its time."""

    OUT_OF_MEMORY = "out of memory"
    KILLED = "killed"
    CRASHED = "crashed"
    DEVICE_LOST = "GPU lost"
    RANK_LOST = "rank of another node lost"
    STALLED = "hung"
    LEAK = "memory leak"
    STORM = "storm"
    ERROR = "error"
    """The program's own, or the user's: it would come again."""


@dataclass(frozen=True)
class Death:
    """The end of a training process that was not asked for."""

    cause: Cause
    """Why."""

    detail: str
    """For people: one line."""

    taken_by_others: int = 0
    """Memory that other programs took while it ran, where it ran out of memory for that [bytes]."""


@dataclass(frozen=True)
class Restart:
    """How a run goes on."""

    note: str
    """For people: what is different from before; empty where nothing is."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run that change, by dotted name."""


def classify_death(
    code: int, output: str, status: str, oom_kills: int = 0, *, may_lose_ranks: bool = False
) -> Death | None:
    """Find out why a process ended.

    Args:
        code: Its exit code, 128 + N for a signal N.
        output: The end of what it printed.
        status: What ``run.json`` says of the run; ``running`` where the process could not say how it ended.
        oom_kills: Processes that the kernel killed for lack of memory just before it ended.
        may_lose_ranks: Whether other machines train along. Why one of their ranks ended is not known here.

    Returns:
        The cause; None where it ended as it should, refused its settings, found the disk full, or stopped by its own
        decision.
    """
    if status == "storm":
        return Death(Cause.STORM, "too many environments failed")
    if status != "running" or code in (ExitCode.OK, ExitCode.REFUSED, ExitCode.DISK_FULL):
        return None

    outcome, detail = classify_exit(code, output, oom_kills=oom_kills)
    if code == 128 + signal.SIGKILL and not oom_kills:
        # Nothing but the kernel's own count tells a lack of memory from somebody's kill -9.
        return Death(Cause.KILLED, "ended by SIGKILL")
    if outcome is Outcome.OOM:
        return Death(Cause.OUT_OF_MEMORY, detail)
    if lost := _first_line(_LOST_DEVICE, output):
        return Death(Cause.DEVICE_LOST, lost)
    if may_lose_ranks and (lost := _first_line(_LOST_RANK, output)):
        return Death(Cause.RANK_LOST, lost)
    return Death(Cause.CRASHED if outcome is Outcome.CRASH else Cause.ERROR, detail)


def _first_line(pattern: re.Pattern[str], output: str) -> str:
    """Return the first line in which a pattern is found; empty where there is none."""
    return next((line.strip() for line in output.splitlines() if pattern.search(line)), "")


def choose_restart(
    death: Death,
    supervise: SuperviseSettings,
    num_envs: int,
    fits: Iterable[int] = (),
    harder_physics: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Restart | None:
    """Choose how a run goes on.

    Args:
        death: How the process ended.
        supervise: What the user allows.
        num_envs: Environments that it had.
        fits: Numbers of environments that were found to fit.
        harder_physics: After a storm, fields of ``physics`` to go on with; None where there are none left.
        progress: What the process was doing; None where that is not known.

    Returns:
        How it goes on, or None: it must not.
    """
    if death.cause is Cause.ERROR:
        return None
    if death.cause is Cause.STORM:
        if not supervise.harden_physics or not harder_physics:
            return None
        changes = {f"physics.{name}": value for name, value in harder_physics.items()}
        return Restart(" ".join(f"{name}={value!r}" for name, value in changes.items()), changes)
    if death.cause is Cause.OUT_OF_MEMORY:
        if death.taken_by_others:
            # No setting of the run is to blame. If they keep it, the next process dies of its own.
            return Restart("")
        if not supervise.shrink_on_oom:
            return None
        if progress is not None and (chunk := smaller_chunk(progress)):
            # An update has as many samples with fewer environments.
            return Restart(f"chunk={chunk}", {"chunk": chunk})
        if num_envs == 1:
            return None
        fewer = _fewer(num_envs, fits)
        return Restart(f"num_envs={fewer} instead of {num_envs}", {"num_envs": fewer})
    return Restart("")


def _fewer(num_envs: int, fits: Iterable[int]) -> int:
    """Return the largest number that was found to fit and gives back at least a quarter of the memory, or half."""
    known = [size for size in fits if size <= 0.75 * num_envs]
    return max([*known, num_envs // 2])
