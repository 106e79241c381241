# SPDX-License-Identifier: BSD-3-Clause
"""The search with real physics, in processes of their own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.num_envs.trends import MARGIN
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.settings.scaling import parse_budget

pytestmark = pytest.mark.sim

BUDGETS = {"ovphysx": ("1.5GiB", "2.5GiB"), "newton_mjwarp": ("1.5GiB", "1.6GiB")}
"""Two for each backend. On a CPU, Newton takes a quarter of the memory for an environment and several times as long
for a step: what fills 2.5 GiB, 6000 environments, takes hours."""
SCRIPTS = Path(__file__).parents[2] / "scripts"


def scale(folder: Path, *arguments: str, codes: Sequence[int] = (0,)) -> tuple[Path, list[dict[str, Any]]]:
    """Run a search; return its folder and its trials."""
    command = [sys.executable, str(SCRIPTS / "scale.py"), "device=cpu", "scaling.cache=ignore", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    result = max(folder.glob("logs/scale/*/*"))
    return result, json.loads((result / "trials.json").read_text(encoding="utf-8"))["trials"]


# A trial on ovphysx is one of test_workflows.py.
@pytest.mark.parametrize("backend", ["newton_mjwarp"])
def test_a_trial_tells_its_memory_and_its_contacts(tmp_path: Path, backend: str) -> None:
    of_env = "env.history_length=2"
    few = ["num_envs=4", "agent.samples_per_update=64", of_env]
    result, trials = scale(tmp_path, "task=lift", f"physics={backend}", *few)
    trial = trials[-1]
    assert (trial["num_envs"], trial["outcome"]) == (4, "fits")
    assert trial["progress"]["phase"] == "update"
    assert trial["contacts"]["contacts"]["capacity"] > 0
    entries = {entry["kind"]: entry["total"] for entry in json.loads((result / "ledger.json").read_text())["entries"]}
    assert sum(entries.values()) == trial["host_bytes"]
    assert entries["libraries and runtime"] > 200 << 20
    assert "camera buffers" not in entries, "a cloud by rays renders no image"
    scene = ("renderer buffers", "clouds", "observation history", "contact buffers", "fault recorder")
    assert all(entries[kind] > 0 for kind in scene)
    assert min(entries["replay"], entries["network weights"]) > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("which", [0, 1], ids=["smaller", "larger"])
def test_the_answer_trains_inside_the_budget_and_a_tenth_more_does_not_fit(
    tmp_path: Path, backend: str, which: int
) -> None:
    budget = BUDGETS[backend][which]
    settings = ["task=lift", "obs=state", f"physics={backend}", f"scaling.budget={budget}", "scaling.max=8192"]
    search = [*settings, "scaling.objective=memory", "scaling.max_seconds=1200"]
    scale(tmp_path, "num_envs=32", *search)  # kernels are compiled
    _, trials = scale(tmp_path, *search)
    # What a winner leaves free, and a number that the user gave need not.
    most = (1.0 - MARGIN) * int(parse_budget(budget))
    best = max(trial["num_envs"] for trial in trials if trial["outcome"] == "fits" and trial["host_bytes"] <= most)
    train = ["train.py", "device=cpu", *settings, f"num_envs={best}", "max_iterations=20", "eval.episodes=1"]
    command = [sys.executable, str(SCRIPTS / train[0]), *train[1:]]
    with (tmp_path / "log").open("wb") as log, ProcessTree(command, log) as tree:
        while (code := tree.wait(0.05)) is None:
            tree.sample()
    assert code == 0, (tmp_path / "log").read_text()
    # The parent of the run is metered here as well, and it imports no torch.
    assert tree.host_bytes < int(parse_budget(budget)) + (200 << 20)
    _, trials = scale(tmp_path, f"num_envs={int(1.1 * best)}", *search, codes=(0, 2))
    assert trials
    assert all(trial["outcome"] == "over_budget" or trial["host_bytes"] > most for trial in trials)
