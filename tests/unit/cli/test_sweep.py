# SPDX-License-Identifier: BSD-3-Clause
"""Several runs of one command line: which settings each of them gets, and how they end together."""

import os
import re
import sys
import tempfile

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from isaaclab_pc.cli.command_line import parse_command
from isaaclab_pc.cli.compose import CONFIG_MODULE, CONFIG_NAME, store_settings
from isaaclab_pc.cli.sweep import packed_overrides, run_each
from isaaclab_pc.errors import ConfigError


def compose_packed(argv):
    """Return the override lists that the runs of a command line get, in Hydra's order."""
    overrides = OverridesParser.create().parse_overrides(packed_overrides(parse_command(argv)))
    batches = BasicSweeper.split_arguments(overrides, None)
    store_settings()
    with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        configs = [hydra_compose(CONFIG_NAME, overrides=run) for run in batches[0]]
    return [(list(config.env_overrides), list(config.agent_overrides)) for config in configs]


def test_overrides_reach_the_settings_unchanged_in_one_run_of_each_combination():
    argv = ["env.a.b=[1,2]", "env.path=/a/b.usd", "agent.x='it is'", "env.none=null"]
    assert compose_packed(argv) == [(["env.a.b=[1,2]", "env.path=/a/b.usd", "env.none=null"], ["agent.x='it is'"])]
    runs = compose_packed(["-m", "env.a=1,2", "agent.b=x,y", "agent.c=3"])
    assert runs == [
        (["env.a=1"], ["agent.b=x", "agent.c=3"]),
        (["env.a=1"], ["agent.b=y", "agent.c=3"]),
        (["env.a=2"], ["agent.b=x", "agent.c=3"]),
        (["env.a=2"], ["agent.b=y", "agent.c=3"]),
    ]


# Each example is composed by Hydra.
@settings(max_examples=30)
@given(st.text(st.characters(codec="ascii", exclude_categories=["C"], exclude_characters="$"), min_size=1))
def test_quoted_text_survives_packing(text):
    quoted = "env.name='" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    (env, _), *others = compose_packed([quoted])
    assert (env, others) == ([quoted], [])


@pytest.fixture
def run_all(tmp_path, monkeypatch):
    """Run a command line in an empty folder; give the exit code and the settings of each run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "--not-for-hydra"])

    def run(argv, codes=None):
        seen = []

        def one(settings):
            seen.append(settings)
            return 0 if codes is None else codes[len(seen) - 1]

        return run_each(parse_command(argv), one), seen

    return run


def test_one_run_is_composed_without_hydras_application(run_all, tmp_path):
    code, (settings,) = run_all(["seed=7", "env.a=1"], [3])
    assert (code, settings.seed, settings.env_overrides) == (3, 7, ["env.a=1"])
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_runs_where_the_folder_for_temporary_files_has_any_name(run_all, tmp_path, monkeypatch):
    scratch = tmp_path / "ü (1)"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert len(run_all(["-m", "seed=5,6"])[1]) == 2


def test_each_combination_is_one_run_and_the_highest_code_counts(run_all, tmp_path):
    code, seen = run_all(["-m", "seed=5,6", "physics=ovphysx,newton_mjwarp", "env.a=1"], [0, 4, 1, 0])
    assert code == 4
    assert [(settings.seed, settings.physics.backend) for settings in seen] == [
        (5, "ovphysx"),
        (5, "newton_mjwarp"),
        (6, "ovphysx"),
        (6, "newton_mjwarp"),
    ]
    assert all(settings.env_overrides == ["env.a=1"] for settings in seen)
    assert sys.argv == ["train.py", "--not-for-hydra"], "the arguments are the program's own again"
    assert list(tmp_path.iterdir()) == [], "Hydra wrote something of its own"


def test_a_run_that_is_refused_does_not_stop_the_others(run_all, capsys):
    code, seen = run_all(["-m", "scaling.min=9", "scaling.max=3,16"])
    assert code == 2
    assert [settings.scaling.max for settings in seen] == [16]
    (error,) = capsys.readouterr().err.splitlines()
    assert "scaling.max=3" in error


def test_ctrl_c_is_for_all_runs(run_all):
    with pytest.raises(SystemExit) as stopped:
        run_all(["-m", "seed=1,2,3"], [0, 130, 0])
    assert stopped.value.code == 130


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["-m", "hydra.sweep.dir=/proc/nope", "seed=1,2"], "hydra.sweep.dir=/proc/nope"),
        (["-m", "hydra/launcher=nope", "seed=1,2"], "hydra/launcher=nope"),
        (["-m", "hydra.sweep.dir=${nope}", "seed=1,2"], "hydra.sweep.dir"),
        (["-m", "hydra.job.env_copy=[ISAACLAB_PC_NO_SUCH_VARIABLE]", "seed=1,2"], "hydra.job.env_copy="),
        (["-m", "hydra.sweeper.params.seed=1", "seed=1,2"], "hydra.sweeper.params.seed=1"),
        (["-m", "--cfg", "job"], "--multirun --cfg job: "),
        (["--resolve"], "--resolve: "),
        (["-cd", "/nope", "-m"], "--config-dir /nope --multirun: "),
    ],
)
def test_what_hydra_would_refuse_with_a_traceback_is_refused_in_one_line(run_all, argv, named, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    with pytest.raises(ConfigError, match=re.escape(named)) as refusal:
        run_all(argv)
    assert "\n" not in str(refusal.value)
    assert os.environ["HYDRA_FULL_ERROR"] == "0", "the variable is as it was"


def test_a_flag_without_its_value_is_refused(run_all):
    with pytest.raises(SystemExit, match=r"^2$"):
        run_all(["--cfg"])


def test_an_override_that_refers_to_nothing_is_refused(run_all, capsys):
    assert run_all(["-m", "env.a=${b}", "seed=1"]) == (2, [])
    assert "'b'" in capsys.readouterr().err


def test_an_error_of_a_run_keeps_its_traceback(run_all):
    def broken(settings):
        raise RuntimeError("it broke")

    with pytest.raises(RuntimeError, match="broke"):
        run_each(parse_command(["-m", "seed=1,2"]), broken)


def test_a_folder_that_is_given_holds_what_hydra_writes(run_all, tmp_path):
    code, seen = run_all(["-m", f"hydra.sweep.dir={tmp_path}/sweep", "seed=1,2"])
    assert (code, len(seen)) == (0, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]
