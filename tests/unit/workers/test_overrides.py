# SPDX-License-Identifier: BSD-3-Clause
"""Fields of configs: which exist, and what they take."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.run import SETTINGS
from isaaclab_pc.workers.overrides import _HORIZONS, _SET_ELSEWHERE, check_overrides


@dataclass
class Inner:
    width: int = 48
    scale: float = 0.5
    on: bool = True
    name: str | None = None
    crop: tuple[float, float] = (0.0, 1.0)


@dataclass
class Env:
    inner: Inner = field(default_factory=Inner)
    layers: list = field(default_factory=lambda: [Inner()])
    camera: Inner | None = field(default_factory=Inner)


CONFIGS = {"env": Env(), "agent": {"params": {"lr": 1e-3, "layers": [64, 64]}}}


@pytest.mark.parametrize(
    "override",
    [
        "env.inner.width=64",
        "env.inner.scale=1",
        "env.inner.scale=1e-3",
        "env.inner.on=false",
        "env.inner.name=robot",
        "env.inner.name=null",
        "env.inner.crop=[0,2]",
        "env.layers.0.width=3",
        "env.camera=null",
        "agent.params.lr=0.1",
        "agent.params.layers=[32]",
    ],
)
def test_fields_that_exist_take_values_of_their_type(override):
    check_overrides(CONFIGS, [override])


@pytest.mark.parametrize(
    ("key", "present", "value"),
    [
        ("agent.actor.class_name", "here.models:Model", "there:Model"),
        ("agent.actor.class_name", "Model", "there.Model"),
        ("agent.actor.distribution_cfg", {"class_name": "Gaussian"}, {"class_name": "there.Gaussian"}),
        ("agent.actor.distribution_cfg", {}, {"other": ["there:Gaussian"]}),
        ("env.scene.camera.class_type", "{DIR}.camera:Camera", "there:Camera"),
        ("env.scene.spawn.func", print, "there:spawn"),
        ("env.scene.spawn.make", print, "there.spawn"),
        ("agent.models.policy.output", "ACTIONS", "2 * ACTIONS"),
        ("agent.models.policy.network.layers", [32], [{"linear": {"bias=exit()": True}}]),
        ("env.rate", 1.0, "lambda: 3"),
        ("env.label", None, "there:label"),
    ],
)
def test_no_setting_names_code(key, present, value):
    with pytest.raises(ConfigError, match=f"^{key}=.*cannot name code.*new_task"):
        check_overrides(
            nested(key, present), [f"{key}={value!r}" if isinstance(value, dict | list) else f"{key}={value}"]
        )


def test_a_plain_name_chooses_among_the_librarys_own_classes():
    key = "agent.actor.distribution_cfg.class_name"
    check_overrides(nested(key, "GaussianDistribution"), [f"{key}=BetaDistribution"])
    key = "agent.models.policy.network.activations"
    check_overrides(nested(key, "elu"), [f"{key}=relu"])


@pytest.mark.parametrize("value", ["cuda:0", "http://127.0.0.1:8000/a.usd", "omniverse://server/a.usd", "12:30"])
def test_what_only_looks_like_code_is_text(value):
    check_overrides(nested("env.label", "text"), [f"env.label={value}"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.inner.widht=64", r"env\.inner has no field widht: did you mean width\?"),
        ("env.inner.width.x=1", r"env\.inner\.width has no field x"),
        ("agent.params.learning=1", r"agent\.params has no field learning: known: layers, lr"),
        ("env.layers.1.width=3", r"env\.layers has no field 1"),
        ("env.inner.width=wide", "expected a whole number, like the present 48"),
        ("env.inner.width=1.5", "expected a whole number"),
        ("env.inner.crop=[one,two]", "expected a list, like .*: in lists, words need quotes"),
        ("env.inner.scale=big", "expected a number, like the present 0.5"),
        ("env.inner.on=1", "expected true or false"),
        ("env.inner.crop=1", "expected a list"),
        ("env.inner.width=null", "expected a whole number, like the present 48"),
        ("env.inner=3", r"^env\.inner=3: expected a value for one of its fields, as in env\.inner\.width=\.\.\.$"),
    ],
)
def test_others_are_refused_by_name(override, message):
    with pytest.raises(ConfigError, match=message):
        check_overrides(CONFIGS, [override])


@dataclass
class InnerCfg:
    width: int = 48


@dataclass
class OpenCfg:
    camera: InnerCfg | None = None
    rate: float | None = None
    steps: "int | tuple[int, int] | None" = None
    anything: Any = None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.camera={width:3}", r"^env\.camera=\{width:3\}: .*InnerCfg"),
        ("env.camera={'width':3}", r"^env\.camera=.*InnerCfg"),
        ("env.camera.width=3", r"^env\.camera\.width=3: env\.camera is not set: .*InnerCfg"),
        ("env.rate=fast", r"^env\.rate=fast: .*float"),
        ("env.rate=true", r"^env\.rate=true: .*float"),
        ("env.steps=1.5", r"^env\.steps=1\.5: .*int"),
    ],
)
def test_a_field_that_is_not_set_takes_its_type_alone(override, message):
    with pytest.raises(ConfigError, match=message):
        check_overrides({"env": OpenCfg()}, [override])


def test_a_field_that_is_not_set_takes_values_of_its_types():
    taken = ["env.camera=null", "env.rate=1", "env.rate=1e-3", "env.steps=2", "env.steps=[1,2]", "env.anything=x"]
    assert check_overrides({"env": OpenCfg()}, taken) == taken


@pytest.mark.parametrize("word", ["none", "None", "null"])
def test_none_is_a_word_where_a_field_takes_nothing_but_text(word):
    assert check_overrides(nested("env.randomization", "hard"), [f"env.randomization={word}"]) == [
        f"env.randomization='{word}'"
    ]
    assert check_overrides(CONFIGS, [f"env.inner.name={word}", "env.inner.width=64"]) == [
        f"env.inner.name={word}",
        "env.inner.width=64",
    ]


@dataclass
class Presets:
    """A choice among presets, as Isaac Lab's PresetCfg."""

    coarse: Inner = field(default_factory=Inner)
    fine: Inner = field(default_factory=Inner)


@dataclass
class Unresolved:
    inner: Presets = field(default_factory=Presets)


def test_a_field_that_is_a_choice_takes_the_name_of_a_preset():
    unresolved = {"env": Unresolved()}
    check_overrides(CONFIGS, ["env.inner=fine", "env.inner.width=3"], unresolved, Presets)
    with pytest.raises(ConfigError, match=r"^env\.inner=finer: expected one of its presets, coarse, fine, as in env\."):
        check_overrides(CONFIGS, ["env.inner=finer"], unresolved, Presets)
    with pytest.raises(ConfigError, match="has no field widht"):
        check_overrides(CONFIGS, ["env.inner.widht=3"], unresolved, Presets)


# Fields that a setting of the run replaces


@pytest.mark.parametrize(("key", "setting"), _SET_ELSEWHERE.items())
def test_what_would_have_no_effect_is_refused_and_the_setting_is_named(key: str, setting: str):
    assert setting in SETTINGS
    with pytest.raises(ConfigError) as refusal:
        check_overrides(nested(key, 1), [f"{key}=1"])
    assert str(refusal.value) == f"{key}=1 would have no effect: set {setting} instead."


@pytest.mark.parametrize(("key", "samples"), _HORIZONS.items())
def test_a_horizon_that_follows_from_the_samples_of_an_update_is_refused(key: str, samples: str):
    config = nested(key, 16)
    assert check_overrides(config, [f"{key}=32"]) == [f"{key}=32"], "agents of other packages keep theirs"

    parent = config
    for name in samples.split(".")[:-1]:
        parent = parent[name]
    parent["samples_per_update"] = 4096
    with pytest.raises(ConfigError, match=f"^{key}=32 would have no effect: it follows from {samples}, "):
        check_overrides(config, [f"{key}=32"])


# Bounds


def nested(key: str, value: Any) -> dict[str, Any]:
    """Configs in which one field exists."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("env.episode_length_s", [2, 0.5], ["0", "-1", "1e999", "nan", "fast", "true", "[1]", "'1'"]),
        ("env.decimation", [1, 1000], ["0", "2.0", "1e3"]),
        ("env.sim.dt", [1e-5], ["0", "-0.01"]),
        ("env.scene.camera.width", [4096], ["0"]),
        ("agent.algorithm.gamma", [0, 1.0], ["1.01", "-0.1"]),
        ("agent.algorithm.learning_rate", [1e-3], ["0", "1.5"]),
        ("agent.algorithm.entropy_coef", [0, 0.01], ["-1"]),
        ("agent.agent.value_clip", [0.0], ["-0.1"]),
        ("agent.params.config.e_clip", [0.2], ["0.0"]),
        ("agent.algorithm.num_mini_batches", [4], ["0"]),
        ("agent.max_iterations", [1], ["0"]),
        ("agent.actor.hidden_dims", [[64], []], ["64", "[0]", "[64.0]", "['64']", "[true]", "wide", "{}"]),
        ("agent.models.policy.encoder.point_encoder", ["dp3"], ["voxels"]),
        ("agent.actor.encoder.chunk", [64, "auto"], ["all", "0"]),
        ("agent.actor.encoder.precision", ["bf16"], ["fp16"]),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_what_can(key: str, taken: list, refused: list[str]):
    check_overrides(nested(key, taken[0]), [f"{key}={value}" for value in taken])
    for text in refused:
        with pytest.raises(ConfigError) as refusal:
            check_overrides(nested(key, taken[0]), [f"{key}={text}"])
        assert str(refusal.value).startswith(f"{key}={text}: expected ")
        assert f", like the present {taken[0]}." in str(refusal.value)


@given(text=st.text(max_size=20) | st.text(st.sampled_from("[](){}:,'\"0189.e+-j "), max_size=12))
def test_whatever_is_written_is_taken_or_refused_by_the_fields_name(text: str):
    for key in ("env.inner.width", "env.inner.crop", "env.inner.name", "env.inner", "agent.params.lr"):
        try:
            check_overrides(CONFIGS, [f"{key}={text}"])
        except ConfigError as error:
            assert str(error).startswith(f"{key}=")  # noqa: PT017 (most texts are taken or refused as they please)
