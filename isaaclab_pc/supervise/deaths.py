# SPDX-License-Identifier: BSD-3-Clause
"""Why a training process ended before its time. Pure."""

import re
import signal
from dataclasses import dataclass
from enum import StrEnum

from isaaclab_pc.num_envs.classify import classify_exit, first_line
from isaaclab_pc.num_envs.trial import Outcome
from isaaclab_pc.processes.child_process import ExitCode

_LOST_DEVICE = re.compile(
    r"CUDA error: (?:unspecified launch failure|hardware stack error|uncorrectable ECC error|an illegal instruction)"
    r"|\bCUDA_ERROR_(?:LAUNCH_FAILED|ECC_UNCORRECTABLE|DEVICE_UNAVAILABLE|HARDWARE_STACK_ERROR|NVLINK_UNCORRECTABLE)\b"
    r"|\b(?:VK_)?ERROR_DEVICE_LOST\b|\bGPU is lost\b|\bhas fallen off the bus\b"
)
"""Messages of CUDA, Vulkan and NVML about a lost GPU; a new process may have it again, or another one."""

LOST_WORKER = "a Ray worker was lost"
"""Line that :mod:`isaaclab_pc.cluster.ray_train` logs where no process of ours failed."""

_LOST_RANK = re.compile(
    r"\bgloo\b.*(?:[Cc]onnection|Read error|Timed out)"
    rf"|\b{LOST_WORKER}\b"
    r"|\bnccl(?:RemoteError|SystemError)\b|\bNCCL communicator was aborted\b|\bcollective operation timeout\b"
)
"""Messages of Gloo, NCCL and Ray about a rank that is gone."""


class DeathCause(StrEnum):
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

    cause: DeathCause
    """Why."""

    detail: str
    """For people: one line."""

    taken_by_others: int = 0
    """Memory that other programs took while it ran, where it ran out of memory for that [bytes]."""


def classify_death(
    code: int, output: str, status: str, oom_kills: int = 0, *, may_lose_ranks: bool = False
) -> Death | None:
    """Find out why a process died; None where it ended as it should or by its own decision.

    Args:
        code: Its exit code, 128 + N for a signal N.
        output: The end of its output.
        status: Status of the run in ``run.json``; ``running`` where the process could not say how it ended.
        oom_kills: Processes that the kernel killed for lack of memory just before it ended.
        may_lose_ranks: Whether other machines train along. Why one of their ranks ended is not known here.
    """
    if status == "storm":
        return Death(DeathCause.STORM, "too many environments failed")
    if status != "running" or code in (ExitCode.OK, ExitCode.REFUSED, ExitCode.DISK_FULL):
        return None

    outcome, detail = classify_exit(code, output, oom_kills=oom_kills)
    if code == 128 + signal.SIGKILL and not oom_kills:
        # Only the kernel's own count distinguishes a lack of memory from a kill -9.
        return Death(DeathCause.KILLED, "ended by SIGKILL")
    if outcome is Outcome.OOM:
        return Death(DeathCause.OUT_OF_MEMORY, detail)
    if lost := first_line(_LOST_DEVICE, output):
        return Death(DeathCause.DEVICE_LOST, lost)
    if may_lose_ranks and (lost := first_line(_LOST_RANK, output)):
        return Death(DeathCause.RANK_LOST, lost)
    return Death(DeathCause.CRASHED if outcome is Outcome.CRASH else DeathCause.ERROR, detail)
