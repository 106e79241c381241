# SPDX-License-Identifier: BSD-3-Clause
"""The scripts as users start them. What is refused here is refused before anything heavy is loaded."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest
from isaaclab_pc.launch.settings import GROUPS, INTERNAL, RULES

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def script(tmp_path):
    """Run a script in an empty folder."""

    def run(name, *arguments):
        command = [sys.executable, str(SCRIPTS / name), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=raech"], "error: task=raech is not a task: did you mean reach?"),
        (["runner=rslrl"], "error: runner=rslrl: expected one of rl_games, rsl_rl; did you mean rsl_rl?"),
        (["num_env=4"], "error: num_env is not a setting: did you mean num_envs"),
        (["num_envs=0"], "error: num_envs=0: expected auto, or a whole number of at least 1."),
        (["physics.dt=-0.01"], "error: physics.dt=-0.01: expected null, or a number above 0 and at most 0.1."),
        (["device=tpu"], "error: device=tpu: expected auto, cpu, cuda or cuda:N."),
        (["--task", "reach"], "error: --task: settings are written without dashes, task=<value>."),
        (["resume=latest"], "holds no run with a checkpoint"),
        (["scaling.min=9", "scaling.max=3"], "error: scaling.min=9 is above scaling.max=3."),
        (["-m", "seed=1,2", "num_envs=8,0"], "error: num_envs=0: expected"),
    ],
)
def test_bad_input_is_refused_at_once(script, tmp_path, arguments, message):
    start = time.monotonic()
    done = script("train.py", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - start < 15


@pytest.mark.skipif(importlib.util.find_spec("isaacsim") is not None, reason="Isaac Sim is installed")
def test_isaac_sims_physx_without_isaac_sim_says_what_to_install_and_what_works(script, tmp_path):
    done = script("train.py", "num_envs=8", "physics=isaacsim_physx")
    assert done.returncode == 2
    assert "pip install 'isaaclab_pc[isaacsim]'" in done.stderr
    assert "physics=newton_mjwarp" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["train.py", "play.py", "list_tasks.py"])
def test_scripts_explain_themselves(script, tmp_path, name):
    done = script(name, "--help")
    assert done.returncode == 0
    assert f"python scripts/{name}" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_training_names_every_setting(script):
    text = script("train.py", "--help").stdout
    missing = [key for key in {*RULES, *GROUPS} - INTERNAL - {"runner.name"} if key not in text and key not in GROUPS]
    assert missing == []
    assert text.count("python scripts/train.py ") >= 6


def test_printing_the_composed_settings_trains_nothing(script, tmp_path):
    done = script("train.py", "--cfg", "job", "task=reach", "env.episode_length_s=3")
    assert done.returncode == 0
    assert "env.episode_length_s=3" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_play_without_a_run_says_so(script):
    done = script("play.py")
    assert done.returncode == 2
    assert "holds no run with a checkpoint; train one first" in done.stderr


def test_tasks_are_listed_with_their_ids(script):
    done = script("list_tasks.py")
    assert done.returncode == 0
    assert ["reach", "IsaacPC-Reach-Franka-Direct"] in [line.split()[:2] for line in done.stdout.splitlines()]


def test_an_unknown_option_of_the_list_is_refused(script):
    done = script("list_tasks.py", "--al")
    assert done.returncode == 2
    assert "did you mean --all" in done.stderr


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_scripts_only_parse_and_call(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
