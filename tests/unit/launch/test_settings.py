# SPDX-License-Identifier: BSD-3-Clause
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.settings import GROUPS, INTERNAL, RULES, check_key, check_setting, flatten, group_names


def test_every_setting_of_the_config_has_a_rule_and_the_other_way_round():
    assert set(flatten(compose())) == set(RULES)


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_of_a_group_has_the_same_keys(group):
    option_keys = [set(flatten(compose([f"{group}={name}"])[group])) for name in group_names(group)]
    assert all(keys == option_keys[0] for keys in option_keys)


def test_every_physics_option_names_its_own_backend():
    backends = {name: compose([f"physics={name}"])["physics"]["backend"] for name in group_names("physics")}
    assert backends == {name: name for name in group_names("physics")}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_envs", 0),
        ("num_envs", -4),
        ("num_envs", 1.5),
        ("num_envs", True),
        ("num_envs", "many"),
        ("num_envs", None),
        ("max_iterations", 0),
        ("seed", -1),
        ("physics.dt", 0),
        ("physics.dt", -0.01),
        ("physics.dt", 0.11),
        ("physics.dt", float("nan")),
        ("physics.velocity_iterations", -1),
        ("device", "gpu"),
        ("device", "cuda:"),
        ("obs", "rgb"),
        ("runner", "sb4"),
        ("points.crop", [[0, 1], [0, 1]]),
        ("points.crop", [[0, 1], [0, 1], [1, 1]]),
        ("points.remove_robot", "yes"),
        ("guard.max_abs", float("inf")),
        ("scaling.budget", 1.5),
        ("scaling.budget", "lots"),
        ("resume", ""),
        ("env_overrides", "env.x=1"),
        ("visualizer", "none"),
        ("visualizer", True),
        ("visualizer", []),
        ("visualizer", ["viser", "viser"]),
        ("visualizer", ["viser", None]),
    ],
)
def test_a_wrong_value_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=rf"^{key}=.*: expected "):
        check_setting(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_envs", "auto"),
        ("num_envs", 1),
        ("physics.dt", 0.1),
        ("physics.dt", None),
        ("physics.velocity_iterations", 0),
        ("device", "cuda:3"),
        ("points.crop", [[0, 1], [-0.5, 0.5], [0, 1e-3]]),
        ("points.remove_robot", False),
        ("scaling.budget", 0.8),
        ("scaling.budget", "12GB"),
        ("scaling.budget", "1.5 GiB"),
        ("resume", "logs/rsl_rl/reach/2026-01-01_00-00-00"),
        ("physics", "newton_mjwarp"),
        ("visualizer", None),
        ("visualizer", "viser"),
        ("visualizer", ["viser", "newton_gl"]),
    ],
)
def test_a_right_value_passes(key, value):
    check_setting(key, value)


def test_a_wrong_choice_shows_the_near_one():
    with pytest.raises(ConfigError, match="did you mean newton_mjwarp"):
        check_setting("physics", "newton_mjwrap")
    for value in ("vizer", ["rerun", "vizer"]):
        with pytest.raises(ConfigError, match="did you mean viser"):
            check_setting("visualizer", value)
    with pytest.raises(ConfigError, match="did you mean newton_gl or newton_rtx"):
        check_setting("visualizer", "newton")


def test_an_unknown_key_shows_the_near_one():
    with pytest.raises(ConfigError, match="did you mean num_envs"):
        check_key("num_env")


@pytest.mark.parametrize("key", sorted(INTERNAL))
def test_lists_filled_by_the_program_are_no_keys_of_the_command_line(key):
    with pytest.raises(ConfigError):
        check_key(key)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_dt_is_accepted_exactly_between_0_and_a_tenth(value):
    accepted = RULES["physics.dt"].accepts(value)
    assert accepted == (0.0 < value <= 0.1)
