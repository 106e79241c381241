# SPDX-License-Identifier: BSD-3-Clause
"""Command lines: how they are split, and what is refused before anything is composed."""

import pytest

from isaaclab_pc.cli import compose as compose_module
from isaaclab_pc.cli import task_names
from isaaclab_pc.cli.command_line import (
    EVERY_SETTING,
    Takes,
    check_form,
    parse_command,
    parse_override,
    parse_script_command,
    split_own,
)
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.settings.run import INTERNAL

ONE = Takes(run=EVERY_SETTING, options=("--all",))
"""Takes of a script that starts one thing."""


def test_the_command_line_is_split(tmp_path):
    command = parse_command(
        ["-m", "task=reach", "env.a.b=1", "agent.lr=0.1", "seed=1,2", "-p", "physics", "-cd", str(tmp_path)]
    )
    assert command.flags == ["--multirun", "--package", "physics", "--config-dir", str(tmp_path)]
    assert command.settings == ["task=reach", "seed=1,2"]
    assert command.env == ["env.a.b=1"]
    assert command.agent == ["agent.lr=0.1"]
    assert command.multirun
    assert command.given == {"task", "seed"}


def test_the_name_of_a_group_counts_as_the_setting_that_it_stands_for():
    assert parse_command(["physics=newton_mjwarp", "points.num_points=8"]).given == {
        "physics.backend",
        "points.num_points",
    }


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("task=raech", r"\breach\b"),
        ("runer=rsl_rl", "runer .*runner"),
        ("num_envs='8'", "^num_envs=8: .*auto"),
        ("physics=newton", "^physics=newton: .*newton_mjwarp"),
        ("--task=reach", r" task=reach\.$"),
        ("--hlep", "--help"),
        ("+seed=1", r"\+seed=1"),
        ("reach", "task=reach"),
        ("seed@x=1", "seed@x=1"),
        ("env.a=1,2", "-m"),
        ("env.a=[1", r"^env\.a=\[1 "),
        pytest.param("seed=" + "9" * 5000, r"^seed=9{75}\.\.\. .*4300", id="digits"),
        pytest.param("seed=" + "[" * 3000 + "]" * 3000, r"^seed=\[{75}\.\.\. ", id="brackets"),
        ("num_envs", "^num_envs: .*num_envs=<value>"),
        ("--num-envs=16", r" num_envs=16\.$"),
        ("latest", "resume=latest"),
        ("json", "--json"),
        ("env=1", "^env "),
        ("eval={seed:3}", "^eval "),
        ("hydra.foo=1", r"^hydra\.foo=1: .*-m"),
        ("device=cuda:0,cuda:1x", "device=cuda:0,cuda:1x"),
        *((f"{key}=[]", f"^{key} ") for key in sorted(INTERNAL)),
    ],
)
def test_a_wrong_argument_is_refused_before_composing(argument, message, monkeypatch):
    monkeypatch.setattr(compose_module, "hydra_compose", lambda *_, **__: pytest.fail("Hydra composed"))
    monkeypatch.setattr(task_names, "_listing", lambda: pytest.fail("Isaac Lab was imported"))
    with pytest.raises(ConfigError, match=message):
        parse_command([argument])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("task=reach,raech", "^task=raech "),
        ("physics=auto,newton", "^physics=newton: "),
        ("seed=range(-1,3)", "^seed=-1: "),
        ("seed=range(1,3,0)", r"^seed=range\(1,3,0\) "),
        ("seed=range(1,1000000000)", "10000"),
    ],
)
def test_every_value_of_a_sweep_is_checked_before_the_first_run(argument, message):
    with pytest.raises(ConfigError, match=message):
        parse_command(["-m", argument])


def test_hydras_own_settings_are_left_to_hydra_where_it_runs():
    command = parse_command(["-m", "hydra.verbose=true", "hydra/launcher=basic"])
    assert command.settings == ["hydra.verbose=true", "hydra/launcher=basic"]

    job = ["hydra/launcher=slurm", "hydra.launcher.partition=gpu", "seed=1"]
    assert (parse_command(job).launcher, parse_command(job).flags) == ("slurm", [])
    assert parse_command(["seed=1"]).launcher is None
    with pytest.raises(ConfigError, match="hydra"):
        parse_command(job, ONE)


def test_several_gpus_are_one_value_of_one_run_and_several_of_a_sweep():
    assert parse_command(["device=cuda:0,cuda:1"]).settings == ["device='cuda:0,cuda:1'"]
    assert parse_command(["-m", "device=cuda:0,cuda:1"]).settings == ["device=cuda:0,cuda:1"]


def test_a_file_may_have_the_name_of_a_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^seed: "):
        check_form("seed", ["seed"])
    (tmp_path / "seed").mkdir()
    check_form("seed", ["seed"])


@pytest.mark.parametrize("path", ["/data/jürgen/run", "runs/a (1)", "runs/a=b,c", "runs/#1!", "runs/it's"])
@pytest.mark.parametrize("key", ["resume", "teacher", "demos", "init"])
def test_a_path_is_taken_as_it_is(key, path):
    (text,) = parse_command([f"{key}={path}"]).settings
    value = parse_override(text).value()
    assert getattr(value, "text", value) == path


def test_a_path_may_be_left_out_quoted_one_of_several_or_in_a_home_that_the_shell_left(monkeypatch):
    assert parse_command(["resume=null", "teacher='a b'"]).settings == ["resume=null", "teacher='a b'"]
    assert parse_command(["-m", "teacher=a,b"]).settings == ["teacher=a,b"]
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_command(["resume=~/run"]).settings == ["resume=/home/me/run"]
    assert split_own(["file=~/a"], Own)[0].file == "/home/me/a"


def test_flags_are_refused_where_one_thing_is_started():
    assert parse_command(["seed=1"], ONE).settings == ["seed=1"]
    with pytest.raises(ConfigError, match=r"^-m "):
        parse_command(["-m", "seed=1,2"], ONE)


class Own(ScriptSettings):
    """Settings of one script."""

    episodes: int = 100
    """How many."""

    file: str | None = "a.txt"
    """Where to."""


TAKES = Takes(Own, ("seed", "physics."))


def test_a_script_takes_its_own_settings_and_a_few_of_a_run():
    argv = ["seed=1", "episodes=7", "physics=ovphysx", "physics.dt=0.01", "file=b=c"]
    own, command = parse_script_command(argv, TAKES)
    assert (own.episodes, own.file) == (7, "b=c")
    assert command.settings == ["seed=1", "physics=ovphysx", "physics.dt=0.01"]
    assert parse_script_command(["file=null"], Takes(Own))[0].file is None


@pytest.mark.parametrize("key", ["episodes", "file"])
def test_a_variable_of_the_shell_that_is_empty_is_not_taken_for_the_default(key):
    with pytest.raises(ConfigError, match=f"^{key}= "):
        split_own([f"{key}="], Own)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("episodes=many", "^episodes=many: "),
        ("episode=3", "^episode .*episodes.*--help"),
        ("num_envs=8", "^num_envs .*episodes, file, physics, seed"),
        ("points.num_points=8", r"^points\.num_points "),
        ("agent.gamma=1", r"^agent\.gamma "),
        ("seed=-1", "^seed=-1: "),
        ("-m", "^-m "),
        ("reach", "key=value"),
    ],
)
def test_a_script_refuses_the_rest(argument: str, message: str):
    with pytest.raises(ConfigError, match=message):
        parse_script_command([argument], TAKES)
