# SPDX-License-Identifier: BSD-3-Clause
import subprocess
import sys

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import compose as module
from isaaclab_pc.launch.compose import compose, load_config, parse_command, save_config, validate

REACH = "IsaacPC-Reach-Franka-Direct"


def test_importing_it_loads_no_torch_and_no_simulator():
    code = (
        "import sys, isaaclab_pc.launch.compose, isaaclab_pc.commands.train, isaaclab_pc.commands.play\n"
        "isaaclab_pc.launch.task_names.our_tasks()\n"
        "print([m for m in ('torch', 'warp', 'isaaclab', 'isaaclab_tasks') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_is_split():
    command = parse_command(["-m", "task=reach", "env.a.b=1", "agent.lr=0.1", "seed=1,2", "--cfg", "job"])
    assert command.flags == ["-m", "--cfg", "job"]
    assert command.settings == ["task=reach", "seed=1,2"]
    assert command.env == ["env.a.b=1"]
    assert command.agent == ["agent.lr=0.1"]
    assert command.multirun
    assert command.given == {"task", "seed"}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("task=raech", "did you mean reach"),
        ("runner=rslrl", "did you mean rsl_rl"),
        ("runer=rsl_rl", "did you mean runner"),
        ("num_envs=0", "num_envs=0: expected auto, or a whole number of at least 1"),
        ("physics.dt=-0.01", "physics.dt=-0.01: expected"),
        ("physics=newton", "did you mean newton_mjwarp"),
        ("--task=reach", "without dashes"),
        ("--hlep", "did you mean --help"),
        ("reach", "task=reach"),
        ("+extra=1", "no use here"),
        ("~seed", "written key=value"),
        ("seed=1,2", "need -m"),
        ("env.a=1,2", "need -m"),
        ("env_overrides=[]", "not a setting"),
        ("seed=[1", "cannot be read"),
        ("agent=huge", "expected one of default, large"),
        ("env=1", "not a setting"),
    ],
)
def test_a_wrong_argument_is_refused_before_composing(argument, message, monkeypatch):
    monkeypatch.setattr(module, "hydra_compose", lambda *_, **__: pytest.fail("Hydra composed"))
    with pytest.raises(ConfigError, match=message):
        parse_command([argument])


@pytest.mark.parametrize("argument", ["task=reach,raech", "seed=1,-2", "physics=auto,newton", "num_envs=choice(1,0)"])
def test_every_value_of_a_sweep_is_checked_before_the_first_run(argument):
    with pytest.raises(ConfigError):
        parse_command(["-m", argument])


def test_hydras_own_settings_are_left_to_hydra():
    assert parse_command(["hydra.verbose=true", "hydra/launcher=basic"]).settings == [
        "hydra.verbose=true",
        "hydra/launcher=basic",
    ]


def _compose_packed(argv):
    """Return the override lists that the runs of a command line get, in Hydra's order."""
    args = [arg for arg in parse_command(argv).hydra_args() if not arg.startswith("-")]
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    batches = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(args), None)
    with initialize_config_module("isaaclab_pc.conf", version_base="1.3"):
        configs = [hydra_compose("train", overrides=run) for run in batches[0]]
    return [(list(config.env_overrides), list(config.agent_overrides)) for config in configs]


def test_overrides_reach_the_config_unchanged():
    argv = ["env.a.b=[1,2]", "env.path=/a/b.usd", "agent.x='it is'", "env.none=null"]
    assert _compose_packed(argv) == [(["env.a.b=[1,2]", "env.path=/a/b.usd", "env.none=null"], ["agent.x='it is'"])]


def test_a_sweep_over_fields_makes_one_run_of_each_combination():
    runs = _compose_packed(["-m", "env.a=1,2", "agent.b=x,y", "agent.c=3"])
    assert runs == [
        (["env.a=1"], ["agent.b=x", "agent.c=3"]),
        (["env.a=1"], ["agent.b=y", "agent.c=3"]),
        (["env.a=2"], ["agent.b=x", "agent.c=3"]),
        (["env.a=2"], ["agent.b=y", "agent.c=3"]),
    ]


@given(st.text(st.characters(codec="ascii", exclude_categories=["C"], exclude_characters="$"), min_size=1))
def test_quoted_text_survives_packing(text):
    quoted = "env.name='" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    (env, _), *others = _compose_packed([quoted])
    assert (env, others) == ([quoted], [])


def test_composing_gives_plain_values_and_the_gym_id():
    config = compose(["task=reach", "physics=ovphysx", "physics.dt=0.01"])
    assert config["task"] == REACH
    assert config["physics"]["backend"] == "ovphysx"
    assert config["physics"]["dt"] == 0.01
    assert config["runner"] == {"name": "rsl_rl"}
    assert "hydra" not in config
    assert yaml.safe_load(yaml.safe_dump(config)) == config


def test_composing_works_beside_a_running_hydra_application():
    with initialize_config_module("isaaclab_pc.conf", version_base="1.3"):
        assert compose(["seed=7"])["seed"] == 7
        assert hydra_compose("train").seed == 42


def test_a_config_survives_saving_and_loading(tmp_path):
    config = compose(["points.crop=[[0,1],[0,1],[0,1]]", "num_envs=8"])
    save_config(tmp_path / "config.yaml", config)
    assert load_config(tmp_path / "config.yaml") == config
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_loading_refuses_what_is_no_config(tmp_path):
    path = tmp_path / "config.yaml"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)
    path.write_text("- 1", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no settings"):
        load_config(path)
    path.write_text("task: reach", encoding="utf-8")
    with pytest.raises(ConfigError, match="lacks"):
        load_config(path)


def test_a_config_of_an_older_version_takes_the_defaults_of_what_it_lacks_and_says_so(tmp_path, caplog):
    path, config = tmp_path / "config.yaml", compose(["num_envs=8"])
    older = {key: value for key, value in config.items() if key not in ("visualizer", "guard")}
    older["physics"] = {key: value for key, value in config["physics"].items() if key != "contacts"}
    save_config(path, older)
    with pytest.raises(ConfigError, match=r"lacks guard.*physics\.contacts, visualizer"):
        load_config(path)
    assert load_config(path, from_older=True) == config
    assert "guard.mode=quarantine" in caplog.text
    assert "physics.contacts=None" in caplog.text
    assert "num_envs" not in caplog.text
    path.write_text("task: reach\nphysics: 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="physics"):
        load_config(path, from_older=True)


def test_limits_of_the_search_must_be_in_order():
    config = compose()
    config["scaling"].update(min=64, max=16)
    with pytest.raises(ConfigError, match=r"scaling.min=64 is above scaling.max=16"):
        validate(config)


def test_the_seed_of_training_is_refused_for_the_evaluation():
    with pytest.raises(ConfigError, match=r"eval\.seed=7 is the seed of training too"):
        compose(["seed=7", "eval.seed=7"])
