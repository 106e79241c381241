# SPDX-License-Identifier: BSD-3-Clause
"""What policies do where they were not trained, and experts where they were not written: physics, variety, cameras.

    python benchmarks/generalization.py                            the pretrained policies of all tasks
    python benchmarks/generalization.py --policy expert            the experts, under what they notice
    python benchmarks/generalization.py --policy varied --run <run of train.py>     another policy, under that name
    python benchmarks/generalization.py --task lift --condition Newton
    python benchmarks/generalization.py --report                   the table of what is there

Each field of the table is one run of ``scripts/play.py`` in a folder of its own. What came of it is kept as a line of
``<out>/generalization.csv``; a field that stands there is not measured again, on whatever machine: remove its line to
have it measured anew. Prints the table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.cli.task_names import expert_tasks, short_name
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import read_header
from isaaclab_pc.run.evaluation import Success
from isaaclab_pc.run.pretrained import policy_file, pretrained_tasks
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.utils.files import write_atomically

PLAY = Path(__file__).parents[1] / "scripts" / "play.py"
TABLE = "generalization.csv"

PLAIN = {"physics": "ovphysx", "env.randomization": "none"}
"""Physics and randomization of the shipped policies' training, and of the experts; conditions change them."""

SEEN_BY_EXPERTS = {
    "plain": {},
    "Newton": {"physics": "newton_mjwarp"},
    "randomization=default": {"env.randomization": "default"},
    "randomization=hard": {"env.randomization": "hard"},
}
"""What is changed by the name of the table's line, for who reads the simulator's state."""

SETS = {"lift_any": "env.objects", "open_drawer": "env.cabinets", "turn_valve": "env.valves"}
"""The setting of each task that names a set; a policy is played on the one that it was trained on, or on others."""

HELD_OUT = {"set": "held_out"}
HALF = "half of them"
CONDITIONS = {
    **SEEN_BY_EXPERTS,
    "structured light": {"points.realism": "structured_light"},
    "stereo": {"points.realism": "stereo"},
    "structured light, hard": {"points.realism": "structured_light", "env.randomization": "hard"},
    "stereo, hard": {"points.realism": "stereo", "env.randomization": "hard"},
    "held out": HELD_OUT,
    "held out, structured light, hard": {**HELD_OUT, "points.realism": "structured_light", "env.randomization": "hard"},
    "held out, stereo, hard": {**HELD_OUT, "points.realism": "stereo", "env.randomization": "hard"},
    "held out, Newton": {**HELD_OUT, "physics": "newton_mjwarp"},
    "robot in the cloud": {"env.scene.points.remove": "[]"},
    "table in the cloud": {"env.scene.points.crop_lower": "[0.2,-0.4,-0.02]"},
    "half the points": {"points.num_points": HALF},
    "sampler=grid": {"points.sampler": "grid"},
    "sampler=voxel": {"points.sampler": "voxel"},
    "sampler=fps": {"points.sampler": "fps"},
}
"""Likewise, for who sees a cloud."""


@dataclass(frozen=True)
class Field:
    """One number of the table."""

    policy: str
    """``pretrained``, ``expert``, or the name of another one."""
    task: str
    condition: str

    def settings(self, run: RunRecord | None) -> list[str]:
        """Return what ``scripts/play.py`` is given; the run is that of a policy with a name of its own."""
        resume = self.policy if run is None else str(run.folder.resolve())
        settings = {"task": self.task, "resume": resume, **PLAIN}
        if self.policy != "expert":
            settings["points.realism"] = "none"
        settings |= CONDITIONS[self.condition]
        if "set" in settings:
            settings[SETS[self.task]] = settings.pop("set")

        if HALF in settings.values():
            checkpoint = policy_file(self.task) if run is None else run.checkpoint("latest")
            assert checkpoint is not None
            settings["points.num_points"] = str(read_header(checkpoint)["observations"]["points"][-2] // 2)
        return [f"{name}={value}" for name, value in settings.items()]


Results = dict[Field, tuple[Success, int]]
"""Success, and over how many episodes."""


def fields(policy: str, tasks: Sequence[str], conditions: Sequence[str]) -> list[Field]:
    """Return the fields that make sense, condition by condition."""
    known = SEEN_BY_EXPERTS if policy == "expert" else CONDITIONS
    return [
        Field(policy, task, name)
        for name in conditions
        if name in known
        for task in tasks
        if task in SETS or "set" not in CONDITIONS[name]
    ]


def measure(field: Field, run: RunRecord | None, args: argparse.Namespace) -> tuple[Success, int] | None:
    """Evaluate a policy under a condition; None where that failed."""
    folder = args.folder / field.policy / field.task / field.condition.replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    size = [f"num_envs={args.num_envs}", f"eval.episodes={args.episodes}", f"eval.seed={args.seed}"]
    command = [sys.executable, str(PLAY.resolve()), *field.settings(run), *size]
    code = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL).returncode
    if code:
        print(f"{field}: exit code {code}, see {folder}", file=sys.stderr)
        return None

    results = folder.glob("logs/*/*/*/result.json") if run is None else run.folder.glob("play/*/result.json")
    newest = max(results, key=lambda path: path.stat().st_mtime_ns)
    result = json.loads(newest.read_text(encoding="utf-8"))
    return Success(**result["success"]), result["episodes"]


def read_results(path: Path) -> Results:
    """Return what a CSV holds; nothing where there is no such file."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Field(line["policy"], line["task"], line["condition"]): (
                Success(float(line["success"]), float(line["lower"]), float(line["upper"])),
                int(line["episodes"]),
            )
            for line in csv.DictReader(file)
        }


def write_results(results: Results, path: Path) -> None:
    """Write a CSV with a line for each field."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["policy", "task", "condition", "success", "lower", "upper", "episodes"])
        for field, (success, episodes) in results.items():
            interval = [round(value, 6) for value in (success.rate, success.lower, success.upper)]
            writer.writerow([field.policy, field.task, field.condition, *interval, episodes])


def table(results: Results, policy: str, tasks: Sequence[str]) -> str:
    """Return a line for each condition and a column for each task, in percent."""
    lines = [f"| | {' | '.join(f'`{task}`' for task in tasks)} |", f"|---|{'---:|' * len(tasks)}"]
    for name in dict.fromkeys(field.condition for field in fields(policy, tasks, list(CONDITIONS))):
        found = [results.get(Field(policy, task, name)) for task in tasks]
        cells = ["-" if result is None else f"{result[0]} of {result[1]}" for result in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure what is not there, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="pretrained", help="pretrained, expert, or a name for that of --run")
    parser.add_argument("--run", type=Path, help="folder of the run whose policy is measured")
    parser.add_argument("--task", nargs="+", help="all that have such a policy")
    parser.add_argument("--condition", nargs="+", default=list(CONDITIONS), choices=list(CONDITIONS))
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--num_envs", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("logs/generalization"), help="where evaluations are kept")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the CSV goes")
    parser.add_argument("--report", action="store_true", help="report what is there, and measure nothing")
    args = parser.parse_args()

    path = args.out / TABLE
    try:
        run = None if args.run is None else RunRecord.load(args.run)
    except ConfigError as error:
        parser.error(f"--run: {error}")
    own_names = {"pretrained": pretrained_tasks(), "expert": list(expert_tasks())}
    if run is not None and args.policy in own_names:
        parser.error(f"--run={args.run} needs a name of its own: --policy=<name>")
    measured = dict.fromkeys(field.task for field in read_results(path) if field.policy == args.policy)
    known = own_names.get(args.policy, list(measured)) if run is None else [short_name(run.data.task)]
    if not known:
        parser.error(f"--policy={args.policy} needs --run=<folder of a run>; pretrained and expert need none")
    tasks = args.task or known
    if strangers := sorted(set(tasks) - set(known)):
        parser.error(f"no {args.policy} policy of {', '.join(strangers)}; there are {', '.join(known)}")

    failed = False
    for field in [] if args.report else fields(args.policy, tasks, args.condition):
        if field in read_results(path):
            continue
        result = measure(field, run, args)
        failed |= result is None
        if result is not None:
            print(f"{field.policy}, {field.task}, {field.condition}: {result[0]} of {result[1]}", flush=True)
            # Read again: another process may have measured meanwhile.
            write_results({**read_results(path), field: result}, path)

    print(f"\n{table(read_results(path), args.policy, tasks)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
