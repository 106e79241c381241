# SPDX-License-Identifier: BSD-3-Clause
"""``iterations.jsonl``: what each iteration of a run reported, one line each, whatever the learning library."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.terminal.events import finite
from isaaclab_pc.utils.files import end_of
from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

ITERATIONS_NAME = "iterations.jsonl"
"""The file's name in the run's folder."""

_TAIL_BYTES = 1 << 16
"""End of the file that is searched for its last line."""


@dataclass(frozen=True)
class Iteration(JsonRecord):
    """One iteration, as it stands in the file."""

    iteration: Size
    """Iterations completed, 1 after the first."""

    env_steps: Count
    """Steps of all environments together until then."""

    wall_s: NonNegative
    """The run's time until then, all resumptions together, evaluations included [s]."""

    metrics: dict[str, float]
    """The runner's metrics, by the names of :meth:`isaaclab_pc.learners.Runner.train`; those that are not
    finite are left out."""


def append_iteration(folder: Path, iteration: int, env_steps: int, wall_s: float, metrics: Mapping[str, float]) -> None:
    """Append a completed iteration, the finite ones of its metrics, to a run's file; raises OSError."""
    entry = Iteration(iteration, env_steps, wall_s, finite(metrics))
    with (folder / ITERATIONS_NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry.to_dict()) + "\n")


def read_iterations(folder: Path) -> list[Iteration]:
    """Read a run's iterations in their order; empty where it has completed none.

    Iterations that were repeated after a resume count as they were the last time. Lines that are cut off, as by a full
    disk, are passed over.
    """
    try:
        lines = (folder / ITERATIONS_NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return []

    entries: list[Iteration] = []
    for line in lines:
        try:
            entry = Iteration.from_json(line)
        except ValueError:
            continue
        while entries and entries[-1].iteration >= entry.iteration:
            entries.pop()
        entries.append(entry)
    return entries


def last_iteration(folder: Path) -> Iteration | None:
    """Return the newest whole line of a run's file, without reading those before it; None without any."""
    try:
        lines = end_of(folder / ITERATIONS_NAME, _TAIL_BYTES).splitlines()
    except OSError:
        return None

    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            return Iteration.from_json(line)
    return None
