# SPDX-License-Identifier: BSD-3-Clause
"""What befell a run: its iterations over the time, its deaths, and how long each recovery took.

Run ``python benchmarks/fault_picture.py <run folder> --out docs/images/faults.png``. It reads ``run.json`` and
``events.jsonl``, and prints how long the recoveries took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isaaclab_pc.run.folder import EVENTS_NAME
from isaaclab_pc.run.record import RunData, RunRecord


@dataclass(frozen=True)
class Moment:
    """How far a run was at some time."""

    minute: float
    """Since the run was started."""

    iteration: int
    """Iterations completed."""


@dataclass(frozen=True)
class Life:
    """One training process."""

    begin: Moment
    """The start of the run, or the first iteration after a restart."""

    end: Moment
    """Its death, or the end of the run."""


def lives_of(record: RunData, events: Sequence[Mapping[str, Any]]) -> list[Life]:
    """Return the processes of a run that came to an iteration, the first one first.

    Args:
        record: The run's record. The run has ended.
        events: Those of the run, the first one first.
    """
    lives = []
    begin: Moment | None = Moment(0.0, 0)
    for event in events:
        if event["event"] == "recovered":
            begin = _moment(record, event["time"], event["iteration"])
        elif event["event"] == "died" and begin is not None:
            lives.append(Life(begin, _moment(record, event["time"], event["iteration"])))
            # One that dies before its first iteration belongs to the same recovery.
            begin = None
    if begin is not None:
        assert record.ended is not None, "the run has not ended"
        lives.append(Life(begin, _moment(record, record.ended, record.completed_iterations)))
    return lives


def deaths_of(record: RunData, events: Sequence[Mapping[str, Any]]) -> list[Moment]:
    """Return when the processes of a run died, those before their first iteration included.

    Args:
        record: The run's record.
        events: Those of the run.
    """
    return [_moment(record, event["time"], event["iteration"]) for event in events if event["event"] == "died"]


def _moment(record: RunData, time: str, iteration: int) -> Moment:
    since_start = datetime.fromisoformat(time) - datetime.fromisoformat(record.started)
    return Moment(since_start.total_seconds() / 60, iteration)


def draw(lives: Sequence[Life], deaths: Sequence[Moment], title: str, path: Path) -> list[float]:
    """Draw a run as a PNG file.

    Args:
        lives: What :func:`lives_of` returned.
        deaths: What :func:`deaths_of` returned.
        title: Headline.
        path: PNG file to write.

    Returns:
        How long each recovery took, from a death to the first iteration after it [s].
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    gaps = [(before.end, after.begin) for before, after in itertools.pairwise(lives)]
    seconds = [60 * (back.minute - death.minute) for death, back in gaps]

    for life in lives:
        span = ([life.begin.minute, life.end.minute], [life.begin.iteration, life.end.iteration])
        axes.plot(*span, color="tab:blue", label="training" if life is lives[0] else None)
    for index, (death, back) in enumerate(gaps):
        label = f"starting again, {statistics.median(seconds):.0f} s in the median" if index == 0 else None
        axes.axvspan(death.minute, back.minute, color="tab:orange", alpha=0.25, linewidth=0, label=label)
    if deaths:
        ends = ([death.minute for death in deaths], [death.iteration for death in deaths])
        axes.plot(*ends, "x", color="tab:red", label=f"{len(deaths)} deaths")

    axes.set(title=title, xlabel="minutes since the start", ylabel="iterations completed")
    axes.set_xlim(0, lives[-1].end.minute)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=100)
    return seconds


def main() -> None:
    """Read a run and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--out", type=Path, required=True, help="PNG file")
    args = parser.parse_args()

    record = RunRecord.load(args.run).data
    lines = (args.run / EVENTS_NAME).read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    title = f"{record.task}, {record.num_envs} environments: {record.completed_iterations} iterations"
    if record.success is not None:
        title += f", {100 * record.success:.0f} % success"

    seconds = draw(lives_of(record, events), deaths_of(record, events), title, args.out)
    if seconds:
        print(f"{len(seconds)} recoveries: {min(seconds):.0f} to {max(seconds):.0f} s, median "
              f"{statistics.median(seconds):.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
