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


WRONG = {
    "num_envs": (0, "8", 65_537),
    "seed": (2**32,),
    "physics.dt": (0, 0.11),
    "device": ("gpu", "cuda:0\n"),
    "points.crop": ([[0, 1], [0, 1]], [[0, 1], [0, 1], [1, 1]], [[0, 1], [0, 1], [0, float("nan")]]),
    "points.features": (["rgb", "rgb"],),
    "guard.max_abs": (float("inf"),),
    "scaling.budget": (1.5, "lots"),
    "resume": ("",),
    "visualizer": ("none", [], ["viser", "viser"], ["viser", None]),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
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
    with pytest.raises(ConfigError, match=rf" {near}\?$"):
        check_value(SETTINGS[key], value)


def test_lists_filled_by_the_program_are_no_settings_of_a_user():
    assert {"env_overrides", "agent_overrides"} == INTERNAL
    assert not INTERNAL & set(SETTINGS)
    with pytest.raises(ConfigError, match=r"^env_overrides=env\.x=1: "):
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 7, "eval.seed": 7}, r"^eval\.seed=7 "),
        ({"seed": 7, "eval.best_seed": 7}, r"^eval\.best_seed=7 is seed "),
        ({"eval.best_seed": 1000}, r"^eval\.best_seed=1000 is eval\.seed "),
    ],
)
def test_training_the_evaluation_and_the_choice_of_the_best_checkpoint_share_no_resets(values, message):
    with pytest.raises(ConfigError, match=message):
        RunSettings().with_values(values)


# The file


def test_settings_survive_saving_and_an_editor_on_windows(tmp_path):
    settings = compose(
        ["points.crop=[[0,1],[0,1],[0,1]]", "num_envs=8", "visualizer=[viser,newton_gl]"],
        ["env.a='x: y'"],
        ["agent.b=[1,2]"],
    )
    path = tmp_path / "config.yaml"
    settings.save(path)
    assert RunSettings.load(path) == settings
    assert list(tmp_path.iterdir()) == [path]
    path.write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}".encode() + path.read_bytes().replace(b"\n", b"\r\n"))
    assert RunSettings.load(path) == settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- 1", "settings"),
        ("task: reach", r"guard\.mode"),
        ("[" * 5000, "config.yaml"),
        ("num_env: 8", r"num_env .*num_envs\?"),
        ("physics: {dtt: 1}", r"physics\.dtt .*physics\.dt\b"),
        ("physics: {1: 2}", r"physics\.1 "),
        ("task: lift\n\tseed: 1", "line 2, "),
        ("seed: 1\n---\nseed: 2", "line 2, "),
        ("task: !!python/name:os.system", "line 1, "),
        ("a: &a [*a]", "a "),
        (b"task: caf\xe9", "utf-8"),
        ("task: lift".encode("utf-16"), "utf-8"),
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
    with pytest.raises(ConfigError, match=r"guard\.dump.*guard\.mode.*physics\.contacts, visualizer\b"):
        RunSettings.load(path)
