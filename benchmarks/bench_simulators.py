# SPDX-License-Identifier: BSD-3-Clause
"""Lifting a cube in this project, in ManiSkill and in mjlab, on the CPUs of one machine.

    python benchmarks/bench_simulators.py --turns 3
    python benchmarks/bench_simulators.py --only "ManiSkill depth"

Each row is a process of its own, and the rows take turns. The others' packages are installed by uv in environments of
their own, in the versions that the scripts in ``benchmarks/simulators`` name. Prints a table in Markdown: medians over
the turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("simulators")

UV = (str(Path(sys.executable).with_name("uv")), "run", "--quiet")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    simulator: str
    script: str
    obs: str
    num_envs: int

    @property
    def name(self) -> str:
        """Name of the row for ``--only``."""
        return f"{self.simulator} {self.obs} {self.num_envs}"

    def command(self, seconds: float) -> list[str]:
        """Return the command that measures it."""
        python = [sys.executable] if self.script == "ours.py" else [*UV, "--python", sys.executable, "--script"]
        return [
            *python,
            str(FOLDER / self.script),
            f"--obs={self.obs}",
            f"--num_envs={self.num_envs}",
            f"--seconds={seconds}",
        ]


ROWS = [
    *(Row("isaaclab_pc", "ours.py", obs, size) for obs in ("state", "depth", "points") for size in (64, 256)),
    *(Row("ManiSkill", "maniskill.py", obs, size) for obs in ("state", "depth") for size in (2, 4)),
    Row("ManiSkill", "maniskill.py", "points", 2),
    *(Row("mjlab", "mjlab_lift.py", obs, size) for obs in ("state", "depth") for size in (64, 256)),
]


def measure(row: Row, seconds: float) -> dict[str, Any] | None:
    """Measure a row in a process of its own; None where that failed."""
    done = subprocess.run(row.command(seconds), capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{row.name}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure all rows in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1, help="how often each row is measured")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long steps are timed")
    parser.add_argument("--only", default="", help="measures only the rows with names that begin with it")
    args = parser.parse_args()

    results = defaultdict(list)
    for turn in range(args.turns):
        for row in ROWS:
            result = measure(row, args.seconds) if row.name.startswith(args.only) else None
            if result is not None:
                results[row].append(result)
                print(f"turn {turn + 1}: {row.name}: {result}", file=sys.stderr, flush=True)

    print("| | Observed | Environments | Steps/s | Simulated s/s | Memory [GiB] |")
    print("|---|---|---:|---:|---:|---:|")
    for row, measured in results.items():
        rate = statistics.median(one["steps_per_s"] for one in measured)
        simulated = statistics.median(one["steps_per_s"] / one["control_hz"] for one in measured)
        gib = statistics.median(one["bytes"] for one in measured) / 2**30
        print(f"| {row.simulator} | {row.obs} | {row.num_envs} | {rate:,.0f} | {simulated:.1f} | {gib:.1f} |")


if __name__ == "__main__":
    main()
