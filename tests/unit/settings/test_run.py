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
        ("device", "gpu"),
        ("device", "cuda:0\n"),
        ("points.crop", [[0, 1], [0, 1]]),
        ("points.crop", [[0, 1], [0, 1], [1, 1]]),
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
    ("key", "value", "near"),
    [
        ("guard.mode", "quarantin", "quarantine"),
        ("points.features", ["rgb", "normal"], "normals"),
        ("visualizer", ["newton_gl", "vizer"], "viser"),
        ("visualizer", "newton", "newton_gl or newton_rtx"),
    ],
)
def test_a_wrong_choice_shows_the_near_one(key, value, near):
    with pytest.raises(ConfigError, match=rf"; did you mean {near}\?$"):
        check_value(SETTINGS[key], value)


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
