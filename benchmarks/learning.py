# SPDX-License-Identifier: BSD-3-Clause
"""What is learned of every task, from what it observes and by whom it is taught.

    python benchmarks/learning.py                                     all cells
    python benchmarks/learning.py --task lift push --seed 1           some of them
    python benchmarks/learning.py --report                            tables and curves of what is there, no training

A cell is one run of ``scripts/train.py`` in a folder of its own, ``<folder>/<task>/<obs>/<learner>/<seed>``. One that
was interrupted goes on where it was: start the same command until all are done. What came of a cell is kept in two
CSVs, ``learning.csv`` with a line for each run and ``learning_curves.csv`` with one for each evaluation. A cell that
stands there is not run again, on whatever machine: remove its line to have it run anew. Draws the curves, and prints
the table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl

from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.learners.common.checkpoint_file import acting_weights, load_checkpoint
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.record import CurvePoint, RunData, RunRecord
from isaaclab_pc.utils.files import write_atomically

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

TRAIN = Path(__file__).parents[1] / "scripts" / "train.py"
PLAIN = {"obs": "points", "learner": "expert"}
"""What all seeds are run of; one seed is enough for the rest."""
SEEDS = (1, 2, 3)
GOOD = 0.9
"""Success whose first time is a column of the table."""

OBSERVATIONS = ("points", "depth", "state")
LEARNERS = {
    "expert": ("algorithm=distill",),
    "teacher": ("algorithm=distill",),
    "ppo": ("algorithm=ppo",),
}
"""Who a run learns from: the task's expert, a policy that PPO trained on the state, or rewards alone."""

CELL_NAMES = ("task", "obs", "learner")
"""What seeds have in common."""

TABLE = "learning.csv"
CURVES = "learning_curves.csv"

Row = dict[str, str]
"""A line of a CSV by the names of its columns; what is not known is empty."""

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
    # The evaluation after the last iteration is not in the run's time.
    before = [point for point in data.evaluations if point.wall_s < wall_s]
    return wall_s - sum(point.evaluation_s for point in before)


def evaluated(data: RunData) -> list[tuple[int, float, Evaluation]]:
    """Return environment steps, seconds of training and result of each evaluation of a run, its last one included."""
    points = [(point.env_steps, training_seconds(data, point), point.evaluation) for point in data.evaluations]
    if data.evaluation is not None:
        points.append((data.env_steps, training_seconds(data), data.evaluation))
    return points


def num_parameters(record: RunRecord) -> int | None:
    """Return the size of the network that acts."""
    path = record.checkpoint("latest")
    if path is None:
        return None
    state, _ = load_checkpoint(path, "cpu", ("algorithm",))
    (weights,) = acting_weights(state["algorithm"]).values()
    return sum(value.numel() for value in weights.values())


def row(cell: Cell, record: RunRecord) -> Row:
    """Return what the table's CSV says of a run that is done."""
    data = record.data
    result = data.evaluation
    assert isinstance(result, Evaluation)
    seconds = training_seconds(data)
    good = (point for point in evaluated(data) if (point[2].success_rate or 0.0) >= GOOD)
    good_steps, good_seconds, _ = next(good, (None, None, None))

    values = {
        **asdict(cell),
        "success": result.success and round(result.success.rate, 4),
        "lower": result.success and round(result.success.lower, 4),
        "upper": result.success and round(result.success.upper, 4),
        "success_once": result.success_once and round(result.success_once.rate, 4),
        "episodes": result.episodes,
        "time_to_success_s": result.mean_time_to_success_s and round(result.mean_time_to_success_s, 2),
        "env_steps": data.env_steps,
        "training_s": round(seconds),
        "steps_to_good": good_steps,
        "training_s_to_good": good_seconds and round(good_seconds),
        "env_steps_per_s": round(data.env_steps / seconds),
        "peak_mib": data.peak_bytes and data.peak_bytes >> 20,
        "parameters": num_parameters(record),
        "physics": data.physics,
        "device": data.device,
        "commit": (data.git or "")[:7],
    }
    return {name: "" if value is None else str(value) for name, value in values.items()}


def curve(cell: Cell, data: RunData) -> list[Row]:
    """Return what the curves' CSV says of a run."""
    return [
        {
            **{name: str(value) for name, value in asdict(cell).items()},
            "env_steps": str(env_steps),
            "training_s": str(round(seconds)),
            "success": str(round(evaluation.success_rate or 0.0, 4)),
        }
        for env_steps, seconds, evaluation in evaluated(data)
    ]


def read_rows(path: Path) -> list[Row]:
    """Return the lines of a CSV; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cell_of(line: Row) -> Cell:
    """Return the cell that a CSV's line is of."""
    return Cell(line["task"], line["obs"], line["learner"], int(line["seed"]))


def keep(cell: Cell, record: RunRecord, out: Path) -> None:
    """Write what came of a cell beside what is known of the others."""
    for name, lines in ((TABLE, [row(cell, record)]), (CURVES, curve(cell, record.data))):
        others = [line for line in read_rows(out / name) if cell_of(line) != cell]
        write_rows([*others, *lines], out / name)


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV with a line for each row, in the order of the cells."""
    order = [*sorted(our_tasks()), *OBSERVATIONS, *LEARNERS]
    by_cell = sorted(rows, key=lambda line: (*(order.index(line[name]) for name in CELL_NAMES), int(line["seed"])))

    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(by_cell)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table with a line for each task, observation and learner: medians over the seeds."""
    lines = [
        "| Task | From | Taught by | Success at the end, each seed | At any time | Time to success | Steps | "
        f"Training | Steps/s | To {100 * GOOD:.0f} % | Peak memory | Parameters |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for line in rows:
        groups.setdefault(tuple(line[name] for name in CELL_NAMES), []).append(line)
    for (task, obs, learner), seeds in groups.items():
        cells = (
            f"`{task}`",
            obs,
            learner,
            "; ".join(_success(line) for line in seeds),
            _median(seeds, "success_once", lambda rate: f"{100 * rate:.1f} %"),
            _median(seeds, "time_to_success_s", "{:.2f} s".format),
            _median(seeds, "env_steps", "{:,.0f}".format),
            _median(seeds, "training_s", "{:,.0f} s".format),
            _median(seeds, "env_steps_per_s", "{:,.0f}".format),
            _median(seeds, "training_s_to_good", "{:,.0f} s".format),
            f"{max(float(line['peak_mib'] or 0) for line in seeds) / 1024:.1f} GiB",
            _median(seeds, "parameters", "{:,.0f}".format),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _success(line: Row) -> str:
    if not line["success"]:
        return "-"
    rate, lower, upper = (100 * float(line[name]) for name in ("success", "lower", "upper"))
    return f"{rate:.1f} % [{lower:.1f}, {upper:.1f}]"


def _median(seeds: Sequence[Row], name: str, text: Callable[[float], str]) -> str:
    """Return the median over the seeds; a run without such a number never came to it."""
    median = statistics.median(float(line[name] or math.inf) for line in seeds)
    return "-" if math.isinf(median) else text(median)


def save_curves(rows: Sequence[Row], path: Path) -> None:
    """Draw success over the time of training, one panel for each task, one line for each run."""
    runs: dict[Cell, list[Row]] = {}
    for line in rows:
        runs.setdefault(cell_of(line), []).append(line)
    tasks = list(dict.fromkeys(cell.task for cell in runs))
    kinds = list(dict.fromkeys((cell.obs, cell.learner) for cell in runs))
    columns = min(len(tasks), 4)
    lines = -(-len(tasks) // columns)
    size = (3.2 * columns, 2.5 * lines)
    figure, axes = plt.subplots(lines, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    labelled: dict[str, Line2D] = {}

    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        for cell, points in runs.items():
            if cell.task != task:
                continue
            minutes = [float(point["training_s"]) / 60.0 for point in points]
            success = [100.0 * float(point["success"]) for point in points]
            color = f"C{kinds.index((cell.obs, cell.learner))}"
            (curve,) = axis.plot(minutes, success, marker=".", color=color)
            labelled.setdefault(f"{cell.obs}, {cell.learner}", curve)
        axis.set_title(task, fontsize=10)
        axis.set_xlabel("training [min]", fontsize=8)
        axis.set_ylim(-3, 103)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
    for first, *_ in axes:
        first.set_ylabel("success at the end [%]", fontsize=8)
    figure.legend(list(labelled.values()), list(labelled), fontsize=8, loc="outside upper center", ncols=len(labelled))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def report(cells: Sequence[Cell], out: Path) -> None:
    """Draw the curves of all that is known, and print the table of these cells."""
    rows = [line for line in read_rows(out / TABLE) if cell_of(line) in cells]
    print(f"\n{len(rows)} of {len(cells)} cells are done")
    if not rows:
        return
    save_curves(read_rows(out / CURVES), out / "learning.png")
    print(table(rows))
    print(f"\nwritten: {out / TABLE}, {out / CURVES}, {out / 'learning.png'}")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line; settings may stand anywhere in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=list(our_tasks()), choices=list(our_tasks()))
    parser.add_argument("--obs", nargs="+", default=["points"], choices=OBSERVATIONS)
    parser.add_argument("--learner", nargs="+", default=["expert"], choices=list(LEARNERS))
    parser.add_argument("--seed", nargs="+", type=int, default=list(SEEDS), help="all for points from the expert")
    parser.add_argument("--folder", type=Path, default=Path("logs/learning"), help="where the runs are kept")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where CSV and curves go")
    parser.add_argument("--report", action="store_true", help="report what is done, and train nothing")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="as for scripts/train.py, for new runs")

    # Settings first: an option with several values would take those after it for more of them.
    return parser.parse_args(sorted(argv, key=lambda argument: "=" not in argument or argument.startswith("-")))


def main() -> int:
    """Run the cells that are not done, and report all that are."""
    args = parse_arguments(sys.argv[1:])
    cells = grid(args.task, args.obs, args.learner, args.seed)
    failed = []
    try:
        known = {cell_of(line) for line in read_rows(args.out / TABLE)}
        for cell in [] if args.report else [cell for cell in cells if cell not in known]:
            code = run(cell, args.folder, args.settings)
            record = newest(cell.folder(args.folder))
            if record is not None and is_done(record):
                keep(cell, record, args.out)
            if code == ExitCode.PREEMPTED:
                return code
            if code != ExitCode.OK:
                failed.append(cell)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        report(cells, args.out)
    for cell in failed:
        print(f"failed: {cell}, see its log under {cell.folder(args.folder)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
