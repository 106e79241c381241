# SPDX-License-Identifier: BSD-3-Clause
"""How a training gets on beside other programs, by how long its idle threads spin before they sleep.

    python benchmarks/thread_waits.py --out benchmarks/results/thread_waits.md

torch's threads (OpenMP's) spin while they wait for work. On cores that other programs use, too, the spinning thread
takes time from the one that it waits for. Each cell of the table is a training of its own: ``scripts/train.py`` with
environment variables that set how long threads spin, beside n programs that compute for 60 % of the time on one core
each. Rounds go through all cells in turn, so that a machine that becomes slower does so for all of them. A cell shows
medians over the iterations of all rounds, without the first iteration of each.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from isaaclab_pc.run.iteration_log import ITERATIONS_NAME, read_iterations

TRAIN = Path(__file__).parents[1] / "scripts" / "train.py"
SLEEP_AT_ONCE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
WAITS: dict[str, dict[str, str]] = {
    "spin, as libgomp does": {"OMP_WAIT_POLICY": "", "GOMP_SPINCOUNT": "300000"},
    "spin 20,000 times": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "20000"},
    "spin 5,000 times": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "5000"},
    "spin 1,000 times": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"},
    "sleep at once": SLEEP_AT_ONCE,
    "as a worker sets it": {},
}
"""Environment variables by how threads wait. 300,000 is the default of libgomp for a process that has the cores to
itself."""
NEIGHBOUR = """
import time
while True:
    began = time.monotonic()
    while time.monotonic() - began < 0.006:
        pass
    time.sleep(0.004)
"""


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run programs that compute for 6 of every 10 ms."""
    programs = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def train(settings: list[str], variables: dict[str, str]) -> list[tuple[float, float]]:
    """Train, and return the seconds of rollout and update of each iteration but the first."""
    environment = {name: value for name, value in os.environ.items() if name not in SLEEP_AT_ONCE}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(TRAIN.resolve()), *settings]
        subprocess.run(command, cwd=folder, env={**environment, **variables}, check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).glob(f"logs/*/*/*/{ITERATIONS_NAME}")
        rows = [iteration.metrics for iteration in read_iterations(path.parent)[1:]]
        return [(row["collect_s"], row["learn_s"]) for row in rows]


def main() -> None:
    """Measure all cells, and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="lift")
    parser.add_argument("--num_envs", type=int, default=128)
    parser.add_argument("--iterations", type=int, default=7, help="of each training; the first one does not count")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2], help="numbers of other programs")
    parser.add_argument("--waits", nargs="+", choices=WAITS, default=list(WAITS), help="which rows to measure")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file as well")
    args = parser.parse_args()

    settings = [f"task={args.task}", f"num_envs={args.num_envs}", f"max_iterations={args.iterations}"]
    settings += ["device=cpu", "eval.episodes=1", "eval.best_share=0"]
    measured: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(args.rounds):
        for count in args.neighbours:
            for name in args.waits:
                with neighbours(count):
                    measured[name, count] += train(settings, WAITS[name])
                collect, learn = map(statistics.median, zip(*measured[name, count], strict=True))
                print(f"{name}, beside {count}: collect {collect:.2f} s, learn {learn:.2f} s", flush=True)

    head = ["threads", *(f"collect, beside {n} | learn, beside {n}" for n in args.neighbours)]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|---:|' * len(args.neighbours)}"]
    for name in args.waits:
        cells = []
        for count in args.neighbours:
            collect, learn = map(statistics.median, zip(*measured[name, count], strict=True))
            cells += [f"{collect:.2f}", f"{learn:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")

    command = shlex.join(["python", "benchmarks/thread_waits.py", *sys.argv[1:]])
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    where = f"`{args.task}`, {args.num_envs} environments, {os.cpu_count()} cores. Seconds an iteration:"
    report = "\n".join(["# Threads that wait", "", f"    {command}", "", text, "", where, "", *lines])
    print(report)
    if args.out is not None:
        args.out.write_text(f"{report}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
