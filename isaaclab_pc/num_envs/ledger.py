# SPDX-License-Identifier: BSD-3-Clause
"""The memory of a training by kind, read off the trials of a search."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isaaclab_pc.num_envs.trends import telling
from isaaclab_pc.num_envs.trial import Trial

OVERHEAD = "libraries and runtime"
SIMULATION = "simulation and renderer"
HISTORY = "observation history"
TRAINING = "activations, gradients and the rest"
KINDS = (
    OVERHEAD,
    SIMULATION,
    "contact buffers",
    "camera buffers",
    "renderer buffers",
    "clouds",
    HISTORY,
    "fault recorder",
    "rollout storage",
    "replay",
    "network weights",
    "optimizer",
    TRAINING,
)
"""Names of a ledger's entries, in their order."""

_SCENE_TENSORS = ("contact buffers", "camera buffers", "renderer buffers", "clouds", HISTORY)
"""Kinds of tensors that the environment makes, so they are in the reading after it was built."""


@dataclass(frozen=True)
class Entry:
    """One kind of memory."""

    kind: str
    """One of :data:`KINDS`."""
    total: int
    """Memory at the ledger's number of environments [bytes]."""
    fixed: float | None = None
    """Part that does not depend on the number of environments [bytes]; None: not known from a single size."""
    per_env: float | None = None
    """Memory of one environment more [bytes]; None: likewise."""


@dataclass(frozen=True)
class Ledger:
    """A breakdown for one number of environments."""

    num_envs: int
    entries: tuple[Entry, ...]
    """The kinds that are known, in the order of :data:`KINDS`."""

    @property
    def total(self) -> int:
        """Memory of all entries [bytes]."""
        return sum(entry.total for entry in self.entries)


def measured_ledger(trials: Iterable[Trial], num_envs: int) -> Ledger | None:
    """Break down the memory of a size that fitted, and its growth with the number of environments.

    A child reports its memory before and after it built the environment, and the bytes of the tensors that it can name
    (``Trial.memory``); its peak is metered from outside. The simulation is the growth while the environment was built,
    without tensors that have a name. Training is the rest up to the peak: the entries add up to it.

    Returns:
        The ledger; None where the trial reported nothing. Fixed part and growth are least-squares lines through all
        sizes that fitted and compiled no kernels, and missing where that is one.
    """
    reported = [trial for trial in trials if trial.fits and trial.memory is not None]
    by_size = {trial.num_envs: _memory_by_kind(trial) for trial in reported}
    if num_envs not in by_size:
        return None

    on_line = [trial.num_envs for trial in telling(reported)]
    entries = []
    for kind, total in by_size[num_envs].items():
        fixed, per_env = fit_line({size: by_size[size].get(kind, 0) for size in on_line})
        entries.append(Entry(kind, total, fixed, per_env))
    return Ledger(num_envs, tuple(entries))


def _memory_by_kind(trial: Trial) -> dict[str, int]:
    """Return the memory of a trial by kind [bytes], in the order of `KINDS`; kinds of no size are left out."""
    memory = trial.memory
    assert memory is not None
    peak = trial.host_bytes if trial.device_bytes is None else trial.device_bytes
    sizes = {kind: memory.tensors.get(kind, 0) for kind in KINDS}
    in_scene = sum(sizes[kind] for kind in _SCENE_TENSORS)

    # Where the parent's reading is below the child's own, nothing may turn negative.
    sizes[OVERHEAD] = min(memory.before_env, peak)
    sizes[SIMULATION] = max(min(memory.after_env, peak) - sizes[OVERHEAD] - in_scene, 0)
    sizes[TRAINING] = max(peak - sum(sizes.values()), 0)
    return {kind: size for kind, size in sizes.items() if size > 0}


def fit_line(points: Mapping[int, float]) -> tuple[float, float] | tuple[None, None]:
    """Return intercept and slope of the least-squares line; None for both where there are less than two points."""
    if len(points) < 2:
        return None, None
    line = statistics.linear_regression(list(points), list(points.values()))
    return line.intercept, line.slope
