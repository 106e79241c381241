# SPDX-License-Identifier: BSD-3-Clause
"""What the pretrained policies do where they were not trained: other physics, randomization, cameras and clouds.

    python benchmarks/generalization.py                            all tasks that come with a policy
    python benchmarks/generalization.py --task lift --episodes 64  a quick look at one
    python benchmarks/generalization.py --report                   the table of what is there

Each field of the table is one run of ``scripts/play.py`` in a folder of its own; what is there is not run again. Prints
the table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.launch.evaluation_result import Success
from isaaclab_pc.launch.pretrained import policy_file, pretrained_tasks
from isaaclab_pc.runners import read_header

PLAY = Path(__file__).parents[1] / "scripts" / "play.py"
CONDITIONS = {
    "as trained": (),
    "Newton": ("physics=newton_mjwarp",),
    "randomization=default": ("env.randomization=default",),
    "randomization=hard": ("env.randomization=hard",),
    "structured light": ("points.realism=structured_light",),
    "stereo": ("points.realism=stereo",),
    "half the points": ("points.num_points=HALF",),
    "sampler=grid": ("points.sampler=grid",),
    "sampler=voxel": ("points.sampler=voxel",),
    "sampler=fps": ("points.sampler=fps",),
}
"""Settings by the headline of the table's column."""


def measure(task: str, condition: str, args: argparse.Namespace) -> Success | None:
    """Return the success of a task's policy; None where it was not measured, or failed."""
    folder = args.folder / task / condition.replace(" ", "_")
    results = sorted(folder.glob("logs/pretrained/*/*/result.json"))
    if not results and not args.report:
        num_points = read_header(policy_file(task))["observations"]["points"][0]
        settings = [text.replace("HALF", str(num_points // 2)) for text in CONDITIONS[condition]]
        # They were trained on PhysX.
        physics = [] if any(text.startswith("physics") for text in settings) else ["physics=ovphysx"]
        size = [f"num_envs={args.num_envs}", f"eval.episodes={args.episodes}", f"eval.seed={args.seed}"]
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(PLAY.resolve()), f"task={task}", "resume=pretrained", *size, *physics, *settings]
        subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)
        results = sorted(folder.glob("logs/pretrained/*/*/result.json"))
    if not results:
        return None

    success = Success(**json.loads(results[-1].read_text(encoding="utf-8"))["success"])
    print(f"{task}, {condition}: {success}", flush=True)
    return success


def table(found: dict[tuple[str, str], Success | None], tasks: Sequence[str]) -> str:
    """Return a line for each condition and a column for each task, in percent."""
    lines = [f"| | {' | '.join(f'`{task}`' for task in tasks)} |", f"|---|{'---:|' * len(tasks)}"]
    for condition in CONDITIONS:
        cells = [found[task, condition] for task in tasks]
        lines.append(f"| {condition} | {' | '.join('-' if cell is None else str(cell) for cell in cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is not there, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=pretrained_tasks(), choices=pretrained_tasks())
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--num_envs", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("logs/generalization"), help="where the results are kept")
    parser.add_argument("--report", action="store_true", help="report what is there, and measure nothing")
    args = parser.parse_args()

    found = {(task, name): measure(task, name, args) for name in CONDITIONS for task in args.task}
    print(f"\n{table(found, args.task)}")


if __name__ == "__main__":
    main()
