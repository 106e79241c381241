# SPDX-License-Identifier: BSD-3-Clause
"""Hydra composes one run's settings."""

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_module

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import PhysicsSettings, RunSettings
from isaaclab_pc.settings.physics import BACKENDS

REACH = "IsaacPC-Reach-Franka-Direct"


def test_composing_nothing_gives_the_defaults_of_the_schema():
    assert compose() == RunSettings(task=REACH)


def test_composing_gives_plain_values_and_the_gym_id():
    settings = compose(["task=reach", "physics=ovphysx", "physics.dt=0.01"], ["env.a=1"], ["agent.b=2"])
    assert settings.task == REACH
    assert settings.physics.backend == "ovphysx"
    assert settings.physics.dt == 0.01
    assert settings.runner == "rsl_rl"
    assert settings.env_overrides == ["env.a=1"]
    assert settings.agent_overrides == ["agent.b=2"]
    plain = settings.model_dump()
    assert yaml.safe_load(yaml.safe_dump(plain)) == plain


def test_sim2real_stands_for_settings_of_which_each_may_be_given() -> None:
    implied = ["env.randomization=hard", "env.history_length=3"]
    settings = compose(["sim2real=true"])
    assert (settings.points.realism, settings.points.num_points, settings.env_overrides) == ("mixed", 128, implied)
    settings = compose(["sim2real=true", "points.realism=stereo", "points.num_points=64"], ["env.history_length=1"])
    assert settings.points.num_points == 64
    # Of two overrides of a field, the last one counts.
    assert (settings.points.realism, settings.env_overrides) == ("stereo", [*implied, "env.history_length=1"])
    assert compose().points.realism is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_physics_option_has_all_settings_of_the_group(backend):
    composed = compose([f"physics={backend}"]).physics
    assert composed == PhysicsSettings(backend=backend)
    assert compose([f"physics.backend={backend}"]).physics == composed


@pytest.mark.parametrize("obs", ["depth", "state"])
def test_sim2real_needs_clouds(obs: str) -> None:
    with pytest.raises(ConfigError, match=rf"^sim2real=true with obs={obs}: .* obs=points"):
        compose(["sim2real=true", f"obs={obs}"])


def test_composing_works_beside_a_running_hydra_application():
    compose()
    with initialize_config_module("isaaclab_pc.conf", version_base="1.3"):
        assert compose(["seed=7"]).seed == 7
        assert hydra_compose("train").seed == 42


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed=-1", "^seed=-1: "),
        ("num_env=1", "num_env"),
        ("resume=${oc.env:ISAACLAB_PC_NO_SUCH_VARIABLE}", "ISAACLAB_PC_NO_SUCH_VARIABLE"),
        ("resume=${seed}", "^resume=42: "),
        ("task=${robot}", "^task=franka "),
        ("eval.seed=42", "^eval.seed=42 "),
    ],
)
def test_a_value_that_is_refused_is_refused_in_one_line(setting, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        compose([setting])
    assert "\n" not in str(refusal.value)
