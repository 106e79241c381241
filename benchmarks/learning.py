# SPDX-License-Identifier: BSD-3-Clause
"""What is learned of every task, from what it observes and by whom it is taught.

    python benchmarks/learning.py                                     all cells
    python benchmarks/learning.py --task lift push --seed 1           some of them
    python benchmarks/learning.py --report                            tables and curves of what is there, no training

A cell is one run of ``scripts/train.py`` in a folder of its own, ``<folder>/<task>/<obs>/<learner>/<seed>``. One that
was interrupted goes on where it was, and one that is done is not run again: start the same command until all are done.
Writes a CSV with a row for each run and a plot of the curves, and prints the table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

from isaaclab_pc.launch.child_process import ExitCode
from isaaclab_pc.launch.evaluation_result import Evaluation
from isaaclab_pc.launch.run_record import CurvePoint, RunData, RunRecord
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.runners.checkpoint_file import acting_weights, load_checkpoint

mpl.use("Agg")
import matplotlib.pyplot as plt

TRAIN = Path(__file__).parents[1] / "scripts" / "train.py"
PLAIN = {"obs": "points", "learner": "expert"}
"""What all seeds are run of; one seed is enough for the rest."""
SEEDS = (1, 2, 3)
GOOD = 0.9
"""Success whose first time is a column of the table."""

LEARNERS = {
    "expert": ("algorithm=distill",),
    "teacher": ("algorithm=distill",),
    "ppo": ("algorithm=ppo",),
}
"""Who a run learns from: the task's expert, a policy that PPO trained on the state, or rewards alone."""

COMMON = ("num_envs=256", "eval.episodes=512", "eval.best_episodes=256", "eval.best_share=0.25")


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    task: str
    obs: str
    learner: str
    seed: int

    def folder(self, root: Path) -> Path:
        """Return the folder in which its runs are kept."""
        return root / self.task / self.obs / self.learner / str(self.seed)

    def teacher(self) -> Cell:
        """Return the cell whose policy teaches this one."""
        return Cell(self.task, "state", "ppo", self.seed)


def grid(
    tasks: Sequence[str], observations: Sequence[str], learners: Sequence[str], seeds: Sequence[int]
) -> list[Cell]:
    """Return the cells: those from the expert on clouds first, with all seeds; of the others the first seed alone."""
    pairs = list(itertools.product(observations, learners))
    pairs.sort(key=lambda pair: pair != (PLAIN["obs"], PLAIN["learner"]))

    cells = []
    for obs, learner in pairs:
        if learner == "teacher" and obs == "state":
            continue
        wanted = seeds if (obs, learner) == (PLAIN["obs"], PLAIN["learner"]) else seeds[:1]
        cells += [Cell(task, obs, learner, seed) for seed in wanted for task in tasks]
    return cells


def newest(folder: Path) -> RunRecord | None:
    """Return the cell's newest run, None where there is none yet."""
    runs = sorted(folder.glob("logs/*/*/*/run.json"), key=lambda path: path.stat().st_mtime_ns)
    return RunRecord.load(runs[-1].parent) if runs else None


def is_done(record: RunRecord | None) -> bool:
    """Tell whether a run was trained to its end and evaluated."""
    return record is not None and record.data.status == "completed" and record.data.evaluation is not None


def run(cell: Cell, root: Path, extra: Sequence[str]) -> int:
    """Train a cell, or go on with it; returns the exit code of the training."""
    folder = cell.folder(root)
    record = newest(folder)
    if is_done(record):
        return ExitCode.OK

    settings = [f"task={cell.task}", f"obs={cell.obs}", f"seed={cell.seed}", *LEARNERS[cell.learner], *COMMON, *extra]
    if record is not None and record.checkpoint("latest") is not None:
        settings = [f"resume={record.folder.relative_to(folder)}"]
    elif cell.learner == "teacher":
        code = run(cell.teacher(), root, extra)
        teacher = newest(cell.teacher().folder(root))
        if code != ExitCode.OK or teacher is None:
            return code
        settings.append(f"teacher={teacher.folder.resolve()}")

    folder.mkdir(parents=True, exist_ok=True)
    print(f"\n{cell}", flush=True)
    with subprocess.Popen([sys.executable, str(TRAIN.resolve()), *settings], cwd=folder) as training:
        try:
            return training.wait()
        except KeyboardInterrupt:
            # The training got the terminal's Ctrl-C, too, and writes a checkpoint.
            return training.wait()


def training_seconds(data: RunData, until: CurvePoint | None = None) -> float:
    """Return the time of a run without its evaluations [s], to its end or to a point of its curve."""
    wall_s = data.wall_s if until is None else until.wall_s
    before = [point for point in data.evaluations if until is None or point.iteration < until.iteration]
    return wall_s - sum(point.evaluation_s for point in before)


def first_good(data: RunData) -> CurvePoint | None:
    """Return the first evaluation in training with enough success."""
    good = (point for point in data.evaluations if (point.evaluation.success_rate or 0.0) >= GOOD)
    return next(good, None)


def num_parameters(record: RunRecord) -> int | None:
    """Return the size of the network that acts."""
    path = record.checkpoint("latest")
    if path is None:
        return None
    state, _ = load_checkpoint(path, "cpu", ("algorithm",))
    (weights,) = acting_weights(state["algorithm"]).values()
    return sum(value.numel() for value in weights.values())


def row(cell: Cell, record: RunRecord) -> dict[str, object]:
    """Return what the CSV says of a run that is done."""
    data = record.data
    result = data.evaluation
    assert isinstance(result, Evaluation)
    good = first_good(data)
    seconds = training_seconds(data)
    return {
        "task": cell.task,
        "obs": cell.obs,
        "learner": cell.learner,
        "seed": cell.seed,
        "success": result.success and round(result.success.rate, 4),
        "lower": result.success and round(result.success.lower, 4),
        "upper": result.success and round(result.success.upper, 4),
        "success_once": result.success_once and round(result.success_once.rate, 4),
        "episodes": result.episodes,
        "time_to_success_s": result.mean_time_to_success_s and round(result.mean_time_to_success_s, 2),
        "env_steps": data.env_steps,
        "training_s": round(seconds),
        "steps_to_good": good and good.env_steps,
        "training_s_to_good": good and round(training_seconds(data, good)),
        "env_steps_per_s": round(data.env_steps / seconds),
        "peak_mib": data.peak_bytes and data.peak_bytes >> 20,
        "parameters": num_parameters(record),
        "physics": data.physics,
        "device": data.device,
        "commit": (data.git or "")[:7],
    }


def write_csv(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Write one line for each run."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(done: Sequence[tuple[Cell, RunRecord]]) -> str:
    """Return a Markdown table with a line for each task, observation and learner: medians over the seeds."""
    lines = [
        "| Task | From | Taught by | Success at the end, each seed | At any time | Time to success | Steps | "
        f"Training | To {100 * GOOD:.0f} % | Peak memory |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for cell, record in done:
        groups.setdefault((cell.task, cell.obs, cell.learner), []).append(record)
    for (task, obs, learner), records in groups.items():
        rows = [record.data for record in records]
        results = [data.evaluation for data in rows if data.evaluation is not None]
        good = [training_seconds(data, point) for data in rows if (point := first_good(data)) is not None]
        times = [result.mean_time_to_success_s for result in results if result.mean_time_to_success_s is not None]
        once = [result.success_once.rate for result in results if result.success_once is not None]
        cells = (
            f"`{task}`",
            obs,
            learner,
            "; ".join(str(result.success) for result in results),
            f"{100 * statistics.median(once):.1f} %" if once else "-",
            f"{statistics.median(times):.2f} s" if times else "-",
            f"{statistics.median(data.env_steps for data in rows):,.0f}",
            f"{statistics.median(map(training_seconds, rows)):.0f} s",
            f"{statistics.median(good):.0f} s" if len(good) > len(rows) / 2 else "-",
            f"{max(data.peak_bytes or 0 for data in rows) / 2**30:.1f} GiB",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def save_curves(done: Sequence[tuple[Cell, RunRecord]], path: Path) -> None:
    """Draw success over the time of training, one panel for each task, one line for each run."""
    tasks = list(dict.fromkeys(cell.task for cell, _ in done))
    kinds = list(dict.fromkeys((cell.obs, cell.learner) for cell, _ in done))
    columns = min(len(tasks), 4)
    rows = -(-len(tasks) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.2 * columns, 2.5 * rows), sharey=True, squeeze=False)

    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        labelled = set()
        for cell, record in done:
            if cell.task != task:
                continue
            kind = (cell.obs, cell.learner)
            minutes, success = _curve(record.data)
            label = None if kind in labelled else f"{cell.obs}, {cell.learner}"
            labelled.add(kind)
            axis.plot(minutes, success, marker=".", color=f"C{kinds.index(kind)}", label=label)
        axis.set_title(task, fontsize=10)
        axis.set_xlabel("training [min]", fontsize=8)
        axis.set_ylim(-3, 103)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7, loc="lower right")
    for line in axes:
        line[0].set_ylabel("success at the end [%]", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _curve(data: RunData) -> tuple[list[float], list[float]]:
    """Return the times [min] and the success rates [%] of a run's evaluations, its last one included."""
    times = [training_seconds(data, point) / 60.0 for point in data.evaluations]
    rates = [100.0 * (point.evaluation.success_rate or 0.0) for point in data.evaluations]
    if data.evaluation is not None:
        times.append(training_seconds(data) / 60.0)
        rates.append(100.0 * (data.evaluation.success_rate or 0.0))
    return times, rates


def report(cells: Sequence[Cell], root: Path, out: Path) -> None:
    """Write CSV and curves of the cells that are done, and print the table."""
    found = [(cell, newest(cell.folder(root))) for cell in cells]
    done = [(cell, record) for cell, record in found if record is not None and is_done(record)]
    print(f"\n{len(done)} of {len(cells)} cells are done")
    if not done:
        return
    out.mkdir(parents=True, exist_ok=True)
    write_csv([row(cell, record) for cell, record in done], out / "learning.csv")
    save_curves(done, out / "learning.png")
    print(table(done))
    print(f"\nwritten: {out / 'learning.csv'}, {out / 'learning.png'}")


def main() -> int:
    """Run the cells that are not done, and report all that are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=list(our_tasks()), choices=list(our_tasks()))
    parser.add_argument("--obs", nargs="+", default=["points"], choices=["points", "depth", "state"])
    parser.add_argument("--learner", nargs="+", default=["expert"], choices=list(LEARNERS))
    parser.add_argument("--seed", nargs="+", type=int, default=list(SEEDS), help="all for points from the expert")
    parser.add_argument("--folder", type=Path, default=Path("logs/learning"), help="where the runs are kept")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where CSV and curves go")
    parser.add_argument("--report", action="store_true", help="report what is done, and train nothing")
    parser.add_argument("settings", nargs="*", help="further settings of scripts/train.py, for new runs")
    args = parser.parse_args()

    cells = grid(args.task, args.obs, args.learner, args.seed)
    failed = []
    try:
        for cell in [] if args.report else cells:
            code = run(cell, args.folder, args.settings)
            if code == ExitCode.PREEMPTED:
                return code
            if code != ExitCode.OK:
                failed.append(cell)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        report(cells, args.folder, args.out)
    for cell in failed:
        print(f"failed: {cell}, see its log under {cell.folder(args.folder)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
