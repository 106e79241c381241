# SPDX-License-Identifier: BSD-3-Clause
"""The schema: which values it takes, what it says of the others, and its file."""

import pytest
import yaml

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import check_value
from isaaclab_pc.settings.run import INTERNAL, SETTINGS


def test_every_value_of_a_run_is_a_setting_and_the_other_way_round():
    assert set(RunSettings().flat()) == set(SETTINGS) | INTERNAL


def test_every_setting_says_what_it_is():
    silent = [key for key, setting in SETTINGS.items() if len(setting.meaning.split()) < 2]
    assert silent == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_envs", 0),
        ("num_envs", "8"),
        ("num_envs", 65_537),
        ("seed", 2**32),
        ("physics.dt", 0),
        ("physics.dt", 0.11),
        ("physics.dt", 9e-6),
        ("device", "gpu"),
        ("device", "cuda:"),
        ("device", "cuda:0\n"),
        ("points.crop", [[0, 1], [0, 1]]),
        ("points.crop", [[0, 1], [0, 1], [1, 1]]),
        ("points.crop", [[0, 1], [0, 1], [0, 101]]),
        ("points.crop", [[0, 1], [0, 1], [0, float("nan")]]),
        ("points.features", ["rgb", "rgb"]),
        ("guard.max_abs", float("inf")),
        ("scaling.budget", 1.5),
        ("scaling.budget", "lots"),
        ("resume", ""),
        ("visualizer", "none"),
        ("visualizer", []),
        ("visualizer", ["viser", "viser"]),
        ("visualizer", ["viser", None]),
    ],
)
def test_a_wrong_value_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=rf"^{key}=[\s\S]*: expected "):
        check_value(SETTINGS[key], value)
    with pytest.raises(ConfigError, match=rf"^{key}=[\s\S]*: expected "):
        RunSettings().with_values({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_envs", "auto"),
        ("physics.dt", 0.1),
        ("device", "cuda:3"),
        ("device", "cuda:0,cuda:1"),
        ("points.crop", [[0, 1], [-0.5, 0.5], [0, 1e-3]]),
        ("points.features", ["rgb", "normals"]),
        ("scaling.budget", "12GB"),
        ("scaling.budget", "1.5 GiB"),
        ("scaling.budget", "80%"),
        ("scaling.max_seconds", 30),
        ("resume", "logs/rsl_rl/reach/2026-01-01_00-00-00"),
        ("visualizer", ["viser", "newton_gl"]),
    ],
)
def test_a_right_value_passes(key, value):
    check_value(SETTINGS[key], value)
    assert RunSettings().with_values({key: value}).flat()[key] == value


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_envs", 0, "num_envs=0: expected auto, or a whole number from 1 to 65,536."),
        ("physics.dt", 1e-300, "physics.dt=1e-300: expected null, or a number from 1e-05 to 0.1 s."),
        ("scaling.max_seconds", 0, "scaling.max_seconds=0: expected a number above 0 and at most 604,800 s."),
        ("guard.storm", 1.5, "guard.storm=1.5: expected null, or a number above 0 and at most 1."),
        ("points.remove_robot", "yes", "points.remove_robot=yes: expected null, or true or false."),
        ("device", "tpu", "device=tpu: expected auto, cpu, cuda or cuda:N."),
        ("seed", None, "seed=null: expected a whole number from 0 to 4,294,967,295."),
        ("agent", "huge", "agent=huge: expected one of auto, default, large."),
        (
            "points.crop",
            [[1, 0]],
            "points.crop=[[1, 0]]: expected null, or [[x0,x1],[y0,y1],[z0,z1]] in m with x0 < x1 and so on, "
            "within 100 m.",
        ),
        ("points.features", ["rgb", 3], "points.features=['rgb', 3]: expected null, or a list of rgb, normals, "),
    ],
)
def test_the_message_says_what_is_taken_and_in_which_unit(key, value, message):
    with pytest.raises(ConfigError) as refusal:
        check_value(SETTINGS[key], value)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        ("physics.backend", "newton_mjwrap", "newton_mjwarp"),
        ("guard.mode", "quarantin", "quarantine"),
        ("points.features", ["rgb", "normal"], "normals"),
        ("visualizer", "vizer", "viser"),
        ("visualizer", ["newton_gl", "vizer"], "viser"),
        ("visualizer", "newton", "newton_gl or newton_rtx"),
    ],
)
def test_a_wrong_choice_shows_the_near_one(key, value, near):
    with pytest.raises(ConfigError, match=rf"; did you mean {near}\?$"):
        check_value(SETTINGS[key], value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_env": 8}, r"^num_env is not a setting: did you mean num_envs"),
        ({"fysics.dt": 0.01}, r"^fysics\.dt is not a setting: did you mean physics\.dt"),
    ],
)
def test_an_unknown_name_shows_the_near_one(values, message):
    with pytest.raises(ConfigError, match=message):
        RunSettings().with_values(values)


def test_lists_filled_by_the_program_are_no_settings_of_a_user():
    assert {"env_overrides", "agent_overrides"} == INTERNAL
    assert not INTERNAL & set(SETTINGS)
    with pytest.raises(ConfigError, match=r"env_overrides=env\.x=1: expected a list of text"):
        RunSettings().with_values({"env_overrides": "env.x=1"})


def test_settings_are_not_changed_once_made():
    settings = RunSettings()
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 7
    changed = settings.with_values({"seed": 7, "physics.dt": 0.01})
    assert (changed.seed, changed.physics.dt) == (7, 0.01)
    assert (settings.seed, settings.physics.dt) == (42, None)


def test_visualizers_are_none_one_name_or_several():
    assert RunSettings().visualizers == ()
    assert RunSettings(visualizer="viser").visualizers == ("viser",)
    assert RunSettings(visualizer=["viser", "newton_gl"]).visualizers == ("viser", "newton_gl")


def test_the_seed_of_training_is_refused_for_the_evaluation():
    with pytest.raises(ConfigError, match=r"^eval\.seed=7 is the seed of training too"):
        RunSettings().with_values({"seed": 7, "eval.seed": 7})


@pytest.mark.parametrize(
    ("values", "other"), [({"seed": 7, "eval.best_seed": 7}, "seed"), ({"eval.best_seed": 1000}, "eval.seed")]
)
def test_the_best_checkpoint_is_chosen_on_resets_that_nothing_else_uses(values, other):
    with pytest.raises(ConfigError, match=rf"^eval\.best_seed=\d+ is {other} too"):
        RunSettings().with_values(values)


# The file


def test_settings_survive_saving_and_loading(tmp_path):
    settings = compose(
        ["points.crop=[[0,1],[0,1],[0,1]]", "num_envs=8", "visualizer=[viser,newton_gl]"],
        ["env.a='x: y'"],
        ["agent.b=[1,2]"],
    )
    settings.save(tmp_path / "config.yaml")
    assert RunSettings.load(tmp_path / "config.yaml") == settings
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_file_that_an_editor_on_windows_saved_is_the_same(tmp_path):
    path = tmp_path / "config.yaml"
    settings = compose(["num_envs=8"])
    settings.save(path)
    path.write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}".encode() + path.read_bytes().replace(b"\n", b"\r\n"))
    assert RunSettings.load(path) == settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- 1", "holds no settings"),
        ("task: reach", "lacks"),
        ("[" * 5000, "cannot be read"),
        ("num_env: 8", "num_env is not a setting: did you mean num_envs"),
        ("physics: {dtt: 1}", r"physics\.dtt is not a setting: did you mean physics\.dt"),
        ("physics: {1: 2}", r"physics\.1 is not a setting"),
        ("", "holds no settings"),
        ("task: lift\n\tseed: 1", "cannot be read: line 2: "),
        ("seed: 1\nphysics: {dt: 0.1,\n  dt: 0.2}", "cannot be read: line 3: dt stands there twice"),
        ("seed: 1\n---\nseed: 2", "cannot be read: line 2: "),
        ("task: !!python/name:os.system", "cannot be read: line 1: could not determine a constructor"),
        ("a: &a [*a]", "a is not a setting"),
        (b"task: caf\xe9", "cannot be read: .*utf-8"),
        ("task: lift".encode("utf-16"), "cannot be read: .*utf-8"),
    ],
    ids=ascii,
)
def test_loading_refuses_what_is_no_settings_file(tmp_path, content, message):
    path = tmp_path / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message) as refusal:
        RunSettings.load(path)
    assert str(path) in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_file_that_lacks_settings_is_refused_by_their_names(tmp_path):
    data = compose(["num_envs=8"]).model_dump()
    del data["visualizer"], data["guard"], data["physics"]["contacts"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"lacks guard\.dump.*guard\.mode.*physics\.contacts, visualizer: it was"):
        RunSettings.load(path)
