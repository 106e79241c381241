# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py`` with a fake worker behind the process boundary."""

import json

import pytest

from isaaclab_pc.commands import train
from isaaclab_pc.commands.scale import main, other_answer
from isaaclab_pc.num_envs.search import Objective
from isaaclab_pc.num_envs.trial import Outcome, Trial
from tests.fake_nvml import FakeGpu

SMALL = ["device=cpu", "scaling.min=32", "scaling.max=64", "scaling.granule=32"]


def folders(folder):
    return sorted((folder / "logs" / "scale" / "reach").iterdir())


def trials_of(result):
    return json.loads((result / "trials.json").read_text())["trials"]


def test_a_search_leaves_trials_ledger_and_picture_and_the_answer_for_training(folder, capsys):
    assert main(["task=reach", *SMALL]) == 0
    (result,) = folders(folder)
    assert [trial["num_envs"] for trial in trials_of(result)] == [64, 32]
    entries = {entry["kind"]: entry for entry in json.loads((result / "ledger.json").read_text())["entries"]}
    assert entries["camera buffers"]["per_env"] == 4096
    assert (result / "memory.png").stat().st_size > 10_000
    output = capsys.readouterr().out
    assert "num_envs=32: fits" in output
    assert "camera buffers" in output
    # 100 frames/s either way: the fewest environments win.
    assert train.main(["num_envs=auto", *SMALL]) == 0
    assert "num_envs=32 from an earlier search" in capsys.readouterr().out


def used(num_envs, host_bytes, frames_per_second=100.0):
    return Trial(num_envs, Outcome.FITS, frames_per_second, host_bytes=host_bytes, host_budget=1000)


def test_the_answer_of_the_other_objective_is_told_where_the_trials_tell_it():
    fast, large = Objective.THROUGHPUT, Objective.MEMORY
    assert "about 1,100 environments" in other_answer([used(256, 300), used(128, 200)], fast)
    assert "num_envs=256 is the most that fits, and was tried" in other_answer([used(256, 980), used(128, 500)], fast)
    assert other_answer([used(256, 300), used(128, 300)], fast) == "", "memory does not grow"
    assert other_answer([used(256, 300)], fast) == ""
    speeds = [used(32, 200, 90.0), used(256, 300, 100.0), used(800, 800, 104.0)]
    assert "num_envs=256" in other_answer(speeds, large)
    assert other_answer(speeds[:1], large) == ""


def test_it_searches_again_unless_the_cache_is_asked_for(folder, capsys):
    main(SMALL)
    main(SMALL)
    assert "from an earlier search" not in capsys.readouterr().out
    assert main([*SMALL, "scaling.cache=use"]) == 0
    assert "from an earlier search" in capsys.readouterr().out
    assert len(folders(folder)) == 2, "where nothing was tried nothing is left"


def test_a_search_says_that_it_starts_for_the_first_time_and_a_plan_does_not(folder, capfd, monkeypatch):
    monkeypatch.setenv("WARP_CACHE_PATH", str(folder / "empty"))
    assert main(["num_envs=24", "device=cpu"]) == 0
    assert "note: first start on this machine: kernels are compiled for cpu" in capfd.readouterr().out
    assert main(["--plan", "num_envs=64", "device=cpu"]) == 0
    assert "first start" not in capfd.readouterr().out


def test_a_given_number_is_the_only_one_tried(folder, capsys):
    assert main(["num_envs=24", "device=cpu"]) == 0
    assert [trial["num_envs"] for trial in trials_of(folders(folder)[0])] == [24]


def test_a_plan_without_trials_offers_two_and_leaves_nothing(folder, capfd):
    given = ["device=cpu", "points.num_points=64"]
    assert main(["--plan", *given, "num_envs=64"]) == 0
    output = capfd.readouterr().out
    assert "warning: too many threads" in output
    assert "8 steps of 64 environments, 4 minibatches of 128 samples" in output
    two = [*given, "scaling.objective=memory", "scaling.max_trials=2"]
    assert f"python scripts/scale.py {' '.join(two)}" in output
    assert list(folder.iterdir()) == []

    assert main(two) == 0
    (result,) = folders(folder)
    assert [trial["num_envs"] for trial in trials_of(result)] == [32, 256]
    capfd.readouterr()
    assert main(["--plan", *given, "num_envs=1024"]) == 0
    output = capfd.readouterr().out
    assert "num_envs=1024, not tried, from trials of 32, 256" in output
    # 4 KiB of each environment.
    assert "4.0 MiB" in output
    assert str(result.relative_to(folder)) in output
    assert "scaling.max_trials=2" not in output
    assert main(["--plan", *given, "num_envs=256"]) == 0
    assert "num_envs=256, measured" in capfd.readouterr().out
    assert main(["--plan", *given[:1], "num_envs=256"]) == 0
    assert "measured" not in capfd.readouterr().out, "those trials had other clouds"


def test_a_plan_from_one_size_tells_that_size_and_offers_two(folder, capfd):
    assert main(["num_envs=24", "device=cpu"]) == 0
    capfd.readouterr()
    assert main(["--plan", "num_envs=64", "device=cpu"]) == 0
    output = capfd.readouterr().out
    assert "num_envs=24, measured" in output
    assert "one size tells no growth" in output
    assert "scaling.max_trials=2" in output


def test_the_list_tells_what_each_answer_was_for(folder, capsys):
    assert main(["--list"]) == 0
    assert "no search has left an answer yet" in capsys.readouterr().out
    main([*SMALL, "env.episode_length_s=3"])
    capsys.readouterr()
    assert main(["--list"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "IsaacPC-Reach-Franka-Direct" in output
    assert "rsl_rl" in output


def test_several_gpus_are_each_searched_and_the_first_keeps_room_for_the_others(folder, capsys, nvml):
    nvml.gpus = [FakeGpu("small", 8 << 30, 1 << 30), FakeGpu("large", 16 << 30, 1 << 30)]
    several = ["gpus=2", "physics=newton_mjwarp", "scaling.min=32", "scaling.max=32"]
    assert main(several) == 0
    (result,) = folders(folder)
    trials = trials_of(result)
    assert [(trial["num_envs"], trial["device"]) for trial in trials] == [(32, "cuda:0"), (32, "cuda:1")]
    first, second = ((0.9 * (total << 30) - reserved) / 2**20 for total, reserved in ((7, 512 << 20), (15, 0)))
    assert [trial["device_budget"] / 2**20 for trial in trials] == pytest.approx([first, second], abs=1)
    assert "num_envs=32 on each of cuda:0, cuda:1" in capsys.readouterr().out

    assert train.main([*several[:2], "scaling.min=32", "scaling.max=32"]) == 0
    output = capsys.readouterr().out
    assert "num_envs=32 on each of cuda:0, cuda:1" in output
    assert ": fits (" not in output, "training with the same settings begins with the answer"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "--list"], "different questions"),
        (["--plna"], "--plna is not an option"),
        (["resume=latest"], "resume has no use here, where nothing is trained"),
        (["--stability", "device=cpu", "visualizer=viser"], "visualizer has no use with --stability"),
        (["device=cuda:0,cuda:1"], "device=cuda:0,cuda:1: gpus=2 is for several GPUs"),
        (["gpus=64", "device=cpu"], "gpus=64 device=cpu: there are "),
        (["workers=2"], "workers=2 are those of a Ray cluster: give cluster=ray as well"),
        (["seed=2", *SMALL], "no such field"),
        (["device=cpu", "teacher=train"], "teacher=train: there is nothing to measure yet; give obs=state"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(folder, capfd, arguments, message):
    assert main(arguments) == 2
    assert message in capfd.readouterr().err
    assert not list(folder.glob("logs/scale/*/*"))
