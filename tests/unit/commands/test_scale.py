# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py`` with a fake worker behind the process boundary."""

import json

import pytest

from isaaclab_pc.commands import scale, train
from isaaclab_pc.commands.scale import main
from tests.fake_nvml import FakeGpu

SMALL = ["device=cpu", "scaling.min=32", "scaling.max=64"]


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


def test_a_search_that_the_worker_refuses_leaves_nothing(folder, refused):
    refused(scale, ["seed=2", *SMALL], "")
    assert not list(folder.glob("logs/scale/*/*"))


def test_a_number_that_is_given_is_the_only_one_tried_and_kernels_are_compiled_first(folder, capfd, monkeypatch):
    monkeypatch.setenv("WARP_CACHE_PATH", str(folder / "empty"))
    assert main(["num_envs=24", "device=cpu"]) == 0
    assert sizes_of(folders(folder)[0]) == [24]
    assert "note: " in capfd.readouterr().out, "kernels are compiled first"


def test_of_several_gpus_the_first_is_searched_and_keeps_room_for_the_others(folder, capsys, nvml):
    nvml.gpus = [FakeGpu("small", 8 << 30, 1 << 30) for _ in range(2)]
    several = ["gpus=2", "physics=newton_mjwarp", "scaling.min=32", "scaling.max=32"]
    assert main(several) == 0
    (result,) = folders(folder)
    trials = trials_of(result)
    assert [(trial["num_envs"], trial["device"]) for trial in trials] == [(32, "cuda:0")]
    budget = (0.9 * (7 << 30) - (512 << 20)) / 2**20
    assert trials[0]["device_budget"] / 2**20 == pytest.approx(budget, abs=1)
    capsys.readouterr()

    assert train.main([*several[:2], "scaling.min=32", "scaling.max=32"]) == 0
    output = capsys.readouterr().out
    assert "num_envs=32 " in output
    assert "cuda:0, cuda:1" in output
    assert ": fits" not in output, "training with the same settings begins with the answer"
