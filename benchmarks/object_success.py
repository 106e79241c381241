# SPDX-License-Identifier: BSD-3-Clause
"""Success of ``lift_any`` by family and by object, of its expert or of a policy, on sets of objects.

    python benchmarks/object_success.py                                  the expert, on train and held_out
    python benchmarks/object_success.py --policy pretrained              the policy that comes with the task
    python benchmarks/object_success.py --policy <run or checkpoint> --objects my_set
    python benchmarks/object_success.py --physics newton_mjwarp env.randomization=hard

Each set is played in a process of its own, where every object has the same number of episodes. Prints the table in
Markdown; ``--sheets`` names a folder for a sheet of each set with the objects' rates.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from film import actor

from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.assets.objects.sets import load_set
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.report.object_sheet import save_object_sheet
from isaaclab_pc.run.find_checkpoint import find_trained
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

SEED = 1_000
LEAST_ENVS = 64


def play(policy: str, objects: str, physics: str, episodes: int, overrides: list[str]) -> list[float]:
    """Play at least so many episodes in this process, and return the success rate of each object of a set."""
    num_objects = len(load_set(objects))
    num_envs = num_objects * math.ceil(LEAST_ENVS / num_objects)
    settings = compose(["task=lift_any"])
    checkpoint = None
    if policy != "expert":
        settings, checkpoint, _ = find_trained(policy, settings)
    changes: dict[str, Any] = {"device": "cpu", "physics.backend": physics}
    if checkpoint is None:
        changes["obs"] = "state"
    changes["env_overrides"] = [*settings.env_overrides, f"env.objects={objects}", *overrides]
    settings = settings.with_values(changes)
    resolved = resolve(choose_platform(settings), num_envs)

    succeeded = torch.zeros(num_envs, device=resolved.settings.device)
    ended = torch.zeros(num_envs, dtype=torch.long, device=resolved.settings.device)
    each = math.ceil(episodes / num_envs)
    with open_env(resolved) as env, tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        base: Any = env.unwrapped
        act = actor(resolved, env, checkpoint, Path(scratch))
        observations, _ = env.reset(seed=SEED)
        mine = torch.from_numpy(dealt_objects())
        while (ended < each).any():
            observations, _, terminated, truncated, _ = env.step(act(observations))
            counted = (terminated | truncated) & (ended < each)
            succeeded += counted & base.episode_success
            ended += counted
    return [float(succeeded[mine == index].mean()) / each for index in range(num_objects)]


def table(rates: dict[str, list[float]]) -> str:
    """Return the mean success of each family and of all, by set, in Markdown."""
    families: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in rates}
    for name, values in rates.items():
        for graspable, rate in zip(load_set(name), values, strict=True):
            families[name][graspable.family].append(rate)

    def cell(values: list[float]) -> str:
        return f"{100 * float(np.mean(values)):.1f} %" if values else "-"

    lines = [f"| family | {' | '.join(rates)} |", f"|---|{'---:|' * len(rates)}"]
    for family in dict.fromkeys(family for found in families.values() for family in found):
        lines.append(f"| {family} | {' | '.join(cell(families[name][family]) for name in rates)} |")
    return "\n".join([*lines, f"| all | {' | '.join(cell(values) for values in rates.values())} |"])


def main() -> None:
    """Play each set in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="expert", help="expert, pretrained, or the path of a run or a checkpoint")
    parser.add_argument("--objects", nargs="+", default=["train", "held_out"], help="sets by name or folder")
    parser.add_argument("--physics", default="ovphysx")
    parser.add_argument("--episodes", type=int, default=512)
    parser.add_argument("--sheets", type=Path, help="folder for a sheet of each set")
    parser.add_argument("--set", help=argparse.SUPPRESS)
    args, overrides = parser.parse_known_args()
    if args.set:
        rates = play(args.policy, args.set, args.physics, args.episodes, overrides)
        print(f"RATES {json.dumps(rates)}", flush=True)
        return

    rates = {}
    for name in args.objects:
        command = [sys.executable, __file__, "--set", name, "--policy", args.policy, "--physics", args.physics]
        command += ["--episodes", str(args.episodes), *overrides]
        done = subprocess.run(command, capture_output=True, text=True)
        found = [line for line in done.stdout.splitlines() if line.startswith("RATES ")]
        if not found:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        rates[name] = json.loads(found[0].removeprefix("RATES "))
        if args.sheets is not None:
            args.sheets.mkdir(parents=True, exist_ok=True)
            labels = [f"{100 * rate:.0f} %" for rate in rates[name]]
            save_object_sheet(
                load_set(name), f"{args.policy} on {Path(name).name}", args.sheets / f"{Path(name).name}.png", labels
            )
    print(table(rates))


if __name__ == "__main__":
    main()
