# SPDX-License-Identifier: BSD-3-Clause
"""The table of what pretrained policies do elsewhere, around a stand-in for ``scripts/play.py``."""

from argparse import Namespace

import pytest

from benchmarks import generalization
from benchmarks.generalization import CONDITIONS, measure, table
from isaaclab_pc.launch.evaluation_result import Success
from isaaclab_pc.launch.pretrained import pretrained_tasks

PLAY = """
import json, sys
from pathlib import Path

with open("../../calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
folder = Path("logs/pretrained/task/2026")
folder.mkdir(parents=True)
(folder / "result.json").write_text(json.dumps({"success": {"rate": 0.5, "lower": 0.4, "upper": 0.6}, "seed": 1}))
"""

HALF = Success(rate=0.5, lower=0.4, upper=0.6)


@pytest.fixture
def args(tmp_path, monkeypatch):
    script = tmp_path / "play.py"
    script.write_text(PLAY, encoding="utf-8")
    monkeypatch.setattr(generalization, "PLAY", script)
    return Namespace(folder=tmp_path, episodes=64, num_envs=32, seed=5, report=False)


def test_a_field_of_the_table_is_one_evaluation_which_is_not_run_again(args, tmp_path):
    task = pretrained_tasks()[0]
    assert measure(task, "half the points", args) == measure(task, "half the points", args) == HALF
    (call,) = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert call.startswith(f"task={task} resume=pretrained num_envs=32 eval.episodes=64 eval.seed=5 physics=ovphysx")
    assert "HALF" not in call


def test_physics_is_that_of_the_training_unless_it_is_what_differs(args, tmp_path):
    measure("lift", "Newton", args)
    call = (tmp_path / "calls").read_text(encoding="utf-8").split()
    assert [text for text in call if text.startswith("physics")] == ["physics=newton_mjwarp"]


def test_the_report_measures_nothing(args, tmp_path):
    args.report = True
    assert measure("lift", "stereo", args) is None
    assert not (tmp_path / "calls").exists()

    text = table({("lift", name): HALF if name == "Newton" else None for name in CONDITIONS}, ["lift"])
    assert "| Newton | 50.0 % [40.0, 60.0] |" in text
    assert "| stereo | - |" in text
