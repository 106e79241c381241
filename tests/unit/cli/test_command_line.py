# SPDX-License-Identifier: BSD-3-Clause
"""Command lines: how they are split, and what is refused before anything is composed."""

import pytest

from isaaclab_pc.cli import compose as compose_module
from isaaclab_pc.cli import task_names
from isaaclab_pc.cli.command_line import (
    EVERY_SETTING,
    Takes,
    keys_of,
    parse_command,
    parse_override,
    parse_script_command,
)
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.settings.run import INTERNAL

ONE = Takes(run=EVERY_SETTING, options=("--plan",))
"""Takes of a script that starts one thing."""


def test_the_command_line_is_split(tmp_path):
    command = parse_command(
        ["-m", "task=reach", "env.a.b=1", "agent.lr=0.1", "seed=1,2", "-p", "physics", "-cd", str(tmp_path)]
    )
    assert command.flags == ["--multirun", "--package", "physics", "-cd", str(tmp_path)]
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
        ("task=raech", "did you mean reach"),
        pytest.param("task=" + "x" * 3000, r"^task=x{80}\.\.\.: expected a name of at most 200 letters\.$", id="long"),
        ("runer=rsl_rl", "did you mean runner"),
        ("num_envs='8'", "num_envs=8: expected auto, or a whole number"),
        ("physics.dt=1e-300", "physics.dt=1e-300: expected null, or a number from 1e-05 to 0.1 s"),
        ("physics=newton", "^physics=newton: expected one of .* did you mean newton_mjwarp"),
        ("--task=reach", "without dashes"),
        ("--hlep", "did you mean --help"),
        ("reach", "task=reach"),
        ("+extra=1", "no use here"),
        ("seed@x=1", "no use here"),
        ("~seed", "written key=value"),
        ("seed=1,2", "need -m"),
        ("env.a=1,2", "need -m"),
        ("env.a=[1", r"^env\.a=\[1 cannot be read"),
        pytest.param("seed=" + "9" * 5000, r"^seed=9{75}\.\.\. cannot be read: .*4300 digits", id="digits"),
        pytest.param("seed=" + "[" * 3000 + "]" * 3000, r"^seed=\[{75}\.\.\. cannot be read", id="brackets"),
        ("env=1", "not a setting"),
        ("eval={seed:3}", "eval is not a setting"),
        ("hydra.foo=1", r"^hydra\.foo=1: Hydra's own settings .* no use without -m"),
        ("hydra/launcher=basic", r"^hydra/launcher=basic: Hydra's own settings"),
        ("--cfg", "--cfg needs a value"),
        ("device=cuda:0,cuda:1x", "need -m|cannot be read"),
    ],
)
def test_a_wrong_argument_is_refused_before_composing(argument, message, monkeypatch):
    monkeypatch.setattr(compose_module, "hydra_compose", lambda *_, **__: pytest.fail("Hydra composed"))
    monkeypatch.setattr(task_names, "all_ids", lambda: pytest.fail("Isaac Lab was imported"))
    with pytest.raises(ConfigError, match=message):
        parse_command([argument])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cfg", "jobs"], "^--cfg jobs: expected one of job, hydra, all"),
        (["-i", "bogus"], "^--info bogus: expected one of all, config"),
        (["-cd", "/nope"], "^-cd /nope: there is no such folder"),
        (["--resolve"], "^--resolve has no use without --cfg"),
        (["-m", "--cfg", "job"], "^--multirun and --cfg exclude each other"),
        (["--multirun", "--run"], "^--multirun and --run exclude each other"),
    ],
)
def test_flags_that_hydra_would_refuse_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        parse_command(arguments)


@pytest.mark.parametrize("key", sorted(INTERNAL))
def test_lists_filled_by_the_program_are_no_keys_of_the_command_line(key):
    with pytest.raises(ConfigError, match=f"^{key} is not a setting"):
        parse_command([f"{key}=[]"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("task=reach,raech", "^task=raech is not a task"),
        ("physics=auto,newton", "^physics=newton: expected"),
        ("seed=range(-1,3)", "^seed=-1: expected"),
        ("seed=glob(*)", r"^seed=glob\(\*\) is not a list of values"),
        ("seed=range(1,3,0)", r"^seed=range\(1,3,0\) is not a list of values"),
        ("seed=range(1,1000000000)", "more than 10000 runs"),
        ("agent.a=range(0,1e9)", "more than 10000 runs"),
    ],
)
def test_every_value_of_a_sweep_is_checked_before_the_first_run(argument, message):
    with pytest.raises(ConfigError, match=message):
        parse_command(["-m", argument])


def test_hydras_own_settings_are_left_to_hydra_where_it_runs():
    command = parse_command(["-m", "hydra.verbose=true", "hydra/launcher=basic"])
    assert command.settings == ["hydra.verbose=true", "hydra/launcher=basic"]


def test_a_single_run_may_be_a_job_of_a_cluster():
    arguments = ["hydra/launcher=slurm", "hydra.launcher.partition=gpu", "seed=1"]
    command = parse_command(arguments)
    assert (command.launcher, command.flags) == ("slurm", [])
    assert parse_command(["seed=1"]).launcher is None
    with pytest.raises(ConfigError, match="no use without -m"):
        parse_command(arguments, ONE)


def test_several_gpus_are_one_value_of_one_run_and_several_of_a_sweep():
    assert parse_command(["device=cuda:0,cuda:1"]).settings == ["device='cuda:0,cuda:1'"]
    assert parse_command(["-m", "device=cuda:0,cuda:1"]).settings == ["device=cuda:0,cuda:1"]


@pytest.mark.parametrize("path", ["/data/jürgen/run", "runs/a (1)", "runs/a=b,c", "runs/#1!", "runs/it's"])
@pytest.mark.parametrize("key", ["resume", "teacher", "init"])
def test_a_path_is_taken_as_it_is(key, path):
    (text,) = parse_command([f"{key}={path}"]).settings
    value = parse_override(text).value()
    assert getattr(value, "text", value) == path


def test_a_path_may_be_left_out_quoted_or_one_of_several():
    assert parse_command(["resume=null", "teacher='a b'"]).settings == ["resume=null", "teacher='a b'"]
    assert parse_command(["-m", "teacher=a,b"]).settings == ["teacher=a,b"]


def test_flags_are_refused_where_one_thing_is_started():
    assert parse_command(["seed=1"], ONE).settings == ["seed=1"]
    with pytest.raises(ConfigError, match=r"^-m has no use here"):
        parse_command(["-m", "seed=1,2"], ONE)


class Own(ScriptSettings):
    """Settings of one script."""

    episodes: int = 100
    """How many."""

    file: str | None = "a.txt"
    """Where to."""


def test_a_script_takes_its_own_settings_and_a_few_of_a_run():
    own, command = parse_script_command(
        ["seed=1", "episodes=7", "physics=ovphysx", "physics.dt=0.01", "file=b=c"], Own, ("seed", "physics.")
    )
    assert (own.episodes, own.file) == (7, "b=c")
    assert command.settings == ["seed=1", "physics=ovphysx", "physics.dt=0.01"]
    assert parse_script_command(["file=null"], Own, ())[0].file is None


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("episodes=many", r"^episodes=many: expected a whole number"),
        ("episode=3", r"^episode has no use here: did you mean episodes\? See --help\.$"),
        ("num_envs=8", "^num_envs has no use here: known: episodes, file, physics, seed"),
        ("points.num_points=8", r"^points\.num_points has no use here"),
        ("agent.gamma=1", r"^agent\.gamma has no use here"),
        ("seed=-1", "^seed=-1: expected a whole number"),
        ("-m", "^-m has no use here"),
        ("reach", "settings are written key=value"),
    ],
)
def test_a_script_refuses_the_rest(argument: str, message: str):
    with pytest.raises(ConfigError, match=message):
        parse_script_command([argument], Own, ("seed", "physics."))


def test_a_group_stands_for_all_of_its_settings():
    takes = keys_of("seed", "points.")
    assert takes("points.num_points")
    assert takes("points")
    assert takes("seed")
    assert not takes("pointsize")
    assert not takes("eval.seed")
