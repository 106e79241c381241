# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py`` with a fake worker behind the process boundary."""

import json

import pytest

from isaaclab_pc.workflows import train
from isaaclab_pc.workflows.scale import main

SMALL = ["device=cpu", "scaling.min=32", "scaling.max=64", "scaling.granule=32"]


def folders(folder):
    return sorted((folder / "logs" / "scale" / "reach").iterdir())


def test_a_search_leaves_trials_ledger_and_picture_and_the_answer_for_training(folder, capsys):
    assert main(["task=reach", *SMALL]) == 0
    (result,) = folders(folder)
    assert [trial["num_envs"] for trial in json.loads((result / "trials.json").read_text())] == [32, 64]
    entries = {entry["kind"]: entry for entry in json.loads((result / "ledger.json").read_text())["entries"]}
    assert entries["camera buffers"]["per_env"] == 4096
    assert (result / "memory.png").stat().st_size > 10_000
    output = capsys.readouterr().out
    assert "num_envs=32: fits" in output
    assert "camera buffers" in output
    # 100 frames/s either way: the fewest environments win.
    assert train.main(["num_envs=auto", *SMALL]) == 0
    assert "num_envs=32 from an earlier search" in capsys.readouterr().out


def test_it_searches_again_unless_the_cache_is_asked_for(folder, capsys):
    main(SMALL)
    main(SMALL)
    assert "from an earlier search" not in capsys.readouterr().out
    assert main([*SMALL, "scaling.cache=use"]) == 0
    assert "from an earlier search" in capsys.readouterr().out
    assert len(folders(folder)) == 2, "where nothing was tried nothing is left"


def test_a_given_number_is_the_only_one_tried(folder, capsys):
    assert main(["num_envs=24", "device=cpu"]) == 0
    assert [trial["num_envs"] for trial in json.loads((folders(folder)[0] / "trials.json").read_text())] == [24]


def test_a_plan_runs_no_trial_and_leaves_nothing(folder, capfd):
    assert main(["--plan", "num_envs=64", "device=cpu"]) == 0
    output = capfd.readouterr().out
    assert "predicted" in output
    assert "64.0 MiB" in output
    assert "warning: too many threads" in output
    assert "8 steps of 64 environments, 4 minibatches of 128 samples" in output
    assert list(folder.iterdir()) == []


def test_the_list_tells_what_each_answer_was_for(folder, capsys):
    assert main(["--list"]) == 0
    assert "no search has left an answer yet" in capsys.readouterr().out
    main([*SMALL, "env.episode_length_s=3"])
    capsys.readouterr()
    assert main(["--list"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "IsaacPC-Reach-Franka-Direct" in output
    assert "rsl_rl" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "--list"], "different questions"),
        (["--plna"], "--plna is not an option"),
        (["-m", "seed=1,2"], "-m has no use here"),
        (["task=lfit"], "did you mean lift"),
        (["num_envs=0"], "num_envs=0: expected auto"),
        (["seed=2", *SMALL], "no such field"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(folder, capfd, arguments, message):
    assert main(arguments) == 2
    assert message in capfd.readouterr().err
    assert not list(folder.glob("logs/scale/*/*"))
