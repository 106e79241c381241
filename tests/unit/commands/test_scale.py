# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py`` with a fake worker behind the process boundary."""

import json
import re

import pytest

from isaaclab_pc.commands import scale, train
from isaaclab_pc.commands.scale import main, other_answer
from isaaclab_pc.num_envs.search import Objective
from isaaclab_pc.num_envs.trial import Outcome, Trial
from tests.fake_nvml import FakeGpu

SMALL = ["device=cpu", "scaling.min=32", "scaling.max=64", "scaling.granule=32"]


def folders(folder):
    return sorted((folder / "logs" / "scale" / "reach").iterdir())


def trials_of(result):
    return json.loads((result / "trials.json").read_text())["trials"]


def sizes_of(result):
    return [trial["num_envs"] for trial in trials_of(result)]


def test_a_search_leaves_trials_ledger_and_picture_and_the_answer_for_training(folder, capsys):
    assert main(["task=reach", *SMALL]) == 0
    (result,) = folders(folder)
    assert sizes_of(result) == [64, 32]
    entries = {entry["kind"]: entry for entry in json.loads((result / "ledger.json").read_text())["entries"]}
    assert entries["camera buffers"]["per_env"] == 4096
    assert (result / "memory.png").stat().st_size > 10_000
    assert "camera buffers" in capsys.readouterr().out
    # 100 frames/s either way: the fewest environments win.
    assert train.main(["num_envs=auto", *SMALL]) == 0
    assert "num_envs=32 from " in capsys.readouterr().out

    assert main(SMALL) == 0
    assert len(folders(folder)) == 2, "it searches again"
    assert main([*SMALL, "scaling.cache=use"]) == 0
    assert len(folders(folder)) == 2, "where nothing was tried nothing is left"

    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert {"IsaacPC-Reach-Franka-Direct", "rsl_rl"} <= set(re.findall(r"[\w-]+", listed))


def test_a_search_that_the_worker_refuses_leaves_nothing(folder, refused):
    assert main(["--list"]) == 0, "no answer is there yet"
    refused(scale, ["seed=2", *SMALL], "")
    assert not list(folder.glob("logs/scale/*/*"))


def used(num_envs, host_bytes, frames_per_second=100.0):
    return Trial(num_envs, Outcome.FITS, frames_per_second, host_bytes=host_bytes, host_budget=1000)


def test_the_answer_of_the_other_objective_is_told_where_the_trials_tell_it():
    fast, large = Objective.THROUGHPUT, Objective.MEMORY
    assert "1,100 " in other_answer([used(256, 300), used(128, 200)], fast)
    assert "num_envs=256 " in other_answer([used(256, 980), used(128, 500)], fast)
    assert other_answer([used(256, 300), used(128, 300)], fast) == "", "memory does not grow"
    assert other_answer([used(256, 300)], fast) == ""
    speeds = [used(32, 200, 90.0), used(256, 300, 100.0), used(800, 800, 104.0)]
    assert "num_envs=256 " in other_answer(speeds, large)
    assert other_answer(speeds[:1], large) == ""


def test_a_number_that_is_given_is_the_only_one_tried_and_a_plan_offers_two(folder, capfd, monkeypatch):
    monkeypatch.setenv("WARP_CACHE_PATH", str(folder / "empty"))
    assert main(["num_envs=24", "device=cpu"]) == 0
    assert sizes_of(folders(folder)[0]) == [24]
    assert "note: " in capfd.readouterr().out, "kernels are compiled first"
    assert main(["--plan", "num_envs=64", "device=cpu"]) == 0
    output = capfd.readouterr().out
    assert "note: " not in output
    assert "num_envs=24, measured" in output
    assert "scaling.max_trials=2" in output


def test_a_plan_tells_memory_by_trials_of_the_same_settings(folder, capfd):
    given = ["device=cpu", "points.num_points=64"]
    assert main(["--plan", *given, "num_envs=64"]) == 0
    output = capfd.readouterr().out
    assert "\nwarning: " in output
    (batch,) = [line for line in output.splitlines() if line.startswith("batch: ")]
    assert re.findall(r"\d+", batch) == ["8", "64", "4", "128"]
    two = [*given, "scaling.objective=memory", "scaling.max_trials=2"]
    assert f"scripts/scale.py {' '.join(two)}" in output
    assert list(folder.iterdir()) == []

    assert main(two) == 0
    (result,) = folders(folder)
    assert sizes_of(result) == [32, 256]
    capfd.readouterr()
    assert main(["--plan", *given, "num_envs=1024"]) == 0
    output = capfd.readouterr().out
    assert "num_envs=1024, " in output
    assert "measured" not in output
    # 4 KiB of each environment.
    assert "4.0 MiB" in output
    assert "num_envs=32, 256 " in output
    assert str(result.relative_to(folder)) in output
    assert "scaling.max_trials=2" not in output
    assert main(["--plan", *given, "num_envs=256"]) == 0
    assert "num_envs=256, measured" in capfd.readouterr().out
    assert main(["--plan", *given[:1], "num_envs=256"]) == 0
    assert "measured" not in capfd.readouterr().out, "those trials had other clouds"


def test_several_gpus_are_each_searched_and_the_first_keeps_room_for_the_others(folder, capsys, nvml):
    nvml.gpus = [FakeGpu("small", 8 << 30, 1 << 30), FakeGpu("large", 16 << 30, 1 << 30)]
    several = ["gpus=2", "physics=newton_mjwarp", "scaling.min=32", "scaling.max=32"]
    assert main(several) == 0
    (result,) = folders(folder)
    trials = trials_of(result)
    assert [(trial["num_envs"], trial["device"]) for trial in trials] == [(32, "cuda:0"), (32, "cuda:1")]
    first, second = ((0.9 * (total << 30) - reserved) / 2**20 for total, reserved in ((7, 512 << 20), (15, 0)))
    assert [trial["device_budget"] / 2**20 for trial in trials] == pytest.approx([first, second], abs=1)
    capsys.readouterr()

    assert train.main([*several[:2], "scaling.min=32", "scaling.max=32"]) == 0
    output = capsys.readouterr().out
    assert "num_envs=32 " in output
    assert "cuda:0, cuda:1" in output
    assert ": fits" not in output, "training with the same settings begins with the answer"
