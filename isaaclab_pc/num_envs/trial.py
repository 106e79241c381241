# SPDX-License-Identifier: BSD-3-Clause
"""The record of one size that was tried, passed as JSON from the child that tried it to its parent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from isaaclab_pc.physics.contacts import ContactUsage
from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

SettingValue = bool | int | float | str
"""Value of a setting."""
Overrides = Mapping[str, SettingValue]
"""Values of settings by dotted name, such as ``physics.contacts``, that take the place of the user's."""
FIRST_BUILD_SECONDS = 900.0
"""Longest time until the first environment of a search is built [s]. On two CPU cores, compiling all kernels was seen
to take 90 s, and for an H200 172 s with the start."""


class Outcome(StrEnum):
    """How a trial ended.

    `OVER_BUDGET`, `OOM`, `CRASH` and `TIMEOUT` bound the number of environments from above; `ERROR` and `NAN` end the
    search, since no other size would help.
    """

    FITS = "fits"
    """It trained inside the budget."""
    OVER_BUDGET = "over_budget"
    """Its parent saw it pass a memory budget and ended it."""
    OOM = "oom"
    """It ran out of memory by itself, or the kernel ended it for that."""
    CRASH = "crash"
    """A signal other than an out-of-memory kill ended it."""
    TIMEOUT = "timeout"
    """It was not done when the time for the search was up."""
    TOO_MANY = "too_many"
    """It was not tried: it is more than `Trial.most_envs`."""
    OVERFLOW = "overflow"
    """It trained, but the solver dropped contacts because its buffers were full: it is tried again with larger ones, by
    `Trial.contacts` (Newton) or `Trial.physx_buffers` (PhysX)."""
    NAN = "nan"
    """A loss, or the state of too many environments, was not finite: physics or agent are unstable at any size."""
    ERROR = "error"
    """The user's code or settings failed."""


Meter = Literal["process", "card", "machine", "libraries"]
"""Who told the GPU memory of a trial: the driver, of each of its processes; the growth of the card's used memory,
without that of other programs when the trial was over; likewise that of the machine's memory, where a GPU shares it; or
torch and Warp, which held more than the others told."""


class TrainingPhase(StrEnum):
    """Part of a training."""

    BUILD = "build"
    """It builds the environment and the agent."""
    ROLLOUT = "rollout"
    """It steps the environments."""
    UPDATE = "update"
    """It updates the policy."""


@dataclass(frozen=True)
class Progress(JsonRecord):
    """How far a child had come; written to a file of its own, since a child that is killed writes no trial."""

    phase: TrainingPhase
    """Part that it was in."""
    minibatch_size: Size
    """Samples of each minibatch of its updates."""
    replay_samples: Count = 0
    """Samples that it keeps over iterations."""
    chunk: Count = 0
    """Samples that the policy's encoders hold activations of at once; 0: it has none, or they are not known."""


@dataclass(frozen=True)
class MemoryReport:
    """A child's own readings of its memory: the GPU's where it computes on one, else the host's (resident)."""

    before_env: Count
    """In use before the environment was built: libraries and the simulation app [bytes]."""
    after_env: Count
    """In use after the environment's first step [bytes]."""
    tensors: Mapping[str, Count] = field(default_factory=dict)
    """Size of the tensors that can be named, by kind (`isaaclab_pc.num_envs.ledger.KINDS`) [bytes]."""
    held_peak: Count | None = None
    """Most memory that torch and Warp held on the GPU, used or not [bytes]; None on the CPU."""


@dataclass(frozen=True)
class Trial(JsonRecord):
    """One size that was tried, and its measurements.

    The child fills in outcome, frames per second, seconds, memory, contacts and faults. The parent adds what it metered
    from outside and what it found in the child's output.
    """

    num_envs: Count
    """Environments that were tried."""
    outcome: Outcome
    """How it ended."""
    frames_per_second: NonNegative = 0.0
    """Environment steps of training (rollout and update together) per second, by the least times; 0 unless it fits."""
    seconds: Mapping[str, NonNegative] = field(default_factory=dict)
    """Seconds per phase as the child timed them: build, and the least that a rollout and an update took [s]."""
    wall_seconds: NonNegative = 0.0
    """Seconds from the start of the child to its end, seen by the parent."""
    host_bytes: Count = 0
    """Peak host memory of the child's process tree [bytes]."""
    host_budget: Count | None = None
    """Limit that `host_bytes` was held to [bytes]; None: no limit."""
    device_bytes: Count | None = None
    """Peak memory of the child's process tree on the GPU [bytes]; None on the CPU."""
    device_meter: Meter | None = None
    """Who told `device_bytes`; None on the CPU."""
    device_budget: Count | None = None
    """Limit that `device_bytes` was held to [bytes]; None: no limit."""
    taken_by_others: Count = 0
    """Memory that other programs took while it ran, where it ran out of memory or passed a budget for that [bytes]."""
    detail: str = ""
    """One line on why it did not fit; empty when it did."""
    log: str = ""
    """Where the child's output is kept; empty when it was thrown away."""
    device: str = ""
    """``cuda:N`` that it ran on, in a search for several GPUs; empty in a search on one device."""
    overrides: Overrides = field(default_factory=dict)
    """Settings that it ran with in place of the user's."""
    config_error: bool = False
    """Whether the child refused the user's settings; `detail` is then the message for the user."""
    memory: MemoryReport | None = None
    """The child's own readings of its memory; None where it ended before it could report them."""
    contacts: ContactUsage | None = None
    """How full the solver's contact buffers became; None where the solver gives no reading (PhysX)."""
    physx_buffers: Mapping[str, Count] = field(default_factory=dict)
    """Fields of ``sim.physics`` that PhysX found too small, each with the size that it asked for; 0: it named none."""
    faults: Count = 0
    """Environment steps that the guard ended because something was not finite or out of bounds."""
    most_envs: Count | None = None
    """Environments beyond which an update has more samples than the agent asks for, where the search keeps to that."""
    progress: Progress | None = None
    """How far the child had come; None where it had not begun to train."""
    repeated_lines: tuple[tuple[str, Count], ...] = ()
    """Lines that native code printed over and over: the first of each kind, and how many there were."""
    samples: Count = 0
    """Environment steps of a rollout, of all environments together; an update learns from so many."""
    minibatch: tuple[Count, ...] = ()
    """Shape of an update's minibatches: samples, and with a recurrent policy the steps of its sequences as well. The
    time that an update takes for a sample depends on it."""
    compiled: bool = False
    """Whether it compiled kernels, in memory that no later process needs: they are kept on disk."""

    @property
    def fits(self) -> bool:
        """Whether this size can be used."""
        return self.outcome is Outcome.FITS

    def __str__(self) -> str:
        """One line for the terminal."""
        meter = "" if self.device_meter is None else f" by {self.device_meter}"
        parts = (
            "" if self.device_bytes is None else _used(f"GPU memory{meter}", self.device_bytes, self.device_budget),
            _used("host memory", self.host_bytes, self.host_budget),
            f"{self.frames_per_second:.0f} frames/s" if self.frames_per_second else "",
            f"{self.wall_seconds:.1f} s",
            "" if self.contacts is None else f"contact buffers {self.contacts['share']:.0%} full",
            f"{self.faults} environment steps ended by a fault" if self.faults else "",
            f"{format_size(self.taken_by_others)} taken by other programs meanwhile" if self.taken_by_others else "",
            self.detail,
        )
        outcome = self.outcome.replace("_", " ")
        given = "".join(f" {name}={value}" for name, value in self.overrides.items())
        return f"num_envs={self.num_envs}{given}: {outcome} ({', '.join(filter(None, parts))})"


def format_size(size: float) -> str:
    """Render a number of bytes as text such as "1.5 GiB", which `scaling.budget` takes back."""
    for unit, power in (("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if abs(size) >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size:.0f} B"


def _used(name: str, size: int, budget: int | None) -> str:
    limit = "" if budget is None else f" of {format_size(budget)}"
    return f"{format_size(size)}{limit} {name}"
