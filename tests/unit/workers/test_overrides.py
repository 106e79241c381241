# SPDX-License-Identifier: BSD-3-Clause
"""Fields of configs: which exist, and what they take."""

import re
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
class InnerCfg:
    width: int = 48


@dataclass
class Unset:
    camera: InnerCfg | None = None
    rate: float | None = None
    steps: "int | tuple[int, int] | None" = None
    anything: Any = None


@dataclass
class Env:
    inner: Inner = field(default_factory=Inner)
    layers: list = field(default_factory=lambda: [Inner()])
    camera: Inner | None = field(default_factory=Inner)
    unset: Unset = field(default_factory=Unset)


CONFIGS = {"env": Env(), "agent": {"params": {"lr": 1e-3, "layers": [64, 64]}}}


def nested(key: str, value: Any) -> dict[str, Any]:
    """Configs in which one field exists."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("env.inner.width", ["64"]),
        ("env.inner.scale", ["1", "1e-3"]),
        ("env.inner.on", ["false"]),
        ("env.inner.name", ["robot", "null", "None"]),
        ("env.inner.crop", ["[0,2]"]),
        ("env.layers.0.width", ["3"]),
        ("env.camera", ["null"]),
        ("env.unset.camera", ["null"]),
        ("env.unset.rate", ["1", "1e-3"]),
        ("env.unset.steps", ["2", "[1,2]"]),
        ("env.unset.anything", ["x"]),
        ("agent.params.lr", ["0.1"]),
        ("agent.params.layers", ["[32]"]),
    ],
)
def test_fields_that_exist_take_values_of_their_type(key, values):
    overrides = [f"{key}={value}" for value in values]
    assert check_overrides(CONFIGS, overrides) == overrides


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.inner.widht=64", r"^env\.inner\.widht: .* width\?$"),
        ("env.inner.width.x=1", r"^env\.inner\.width\.x: "),
        ("agent.params.learning=1", r"^agent\.params\.learning: .* layers, lr$"),
        ("env.layers.1.width=3", r"^env\.layers\.1\.width: "),
        ("env.inner.width=wide", r"^env\.inner\.width=wide: .* 48\.$"),
        ("env.inner.width=1.5", r"^env\.inner\.width=1\.5: "),
        ("env.inner.width=null", r"^env\.inner\.width=null: .* 48\.$"),
        ("env.inner.scale=big", r"^env\.inner\.scale=big: .* 0\.5\.$"),
        ("env.inner.on=1", r"^env\.inner\.on=1: "),
        ("env.inner.crop=1", r"^env\.inner\.crop=1: .* \(0\.0, 1\.0\)\.$"),
        ("env.inner.crop=[one,two]", r"^env\.inner\.crop=.* \"field=\['a','b'\]\"\.$"),
        ("env.inner=3", r"^env\.inner=3: .* env\.inner\.width="),
        # A field that is not set takes its type alone.
        ("env.unset.camera={width:3}", r"^env\.unset\.camera=\{width:3\}: .*InnerCfg"),
        ("env.unset.camera={'width':3}", r"^env\.unset\.camera=.*InnerCfg"),
        ("env.unset.camera.width=3", r"^env\.unset\.camera\.width=3: env\.unset\.camera .*InnerCfg"),
        ("env.unset.rate=fast", r"^env\.unset\.rate=fast: .*float"),
        ("env.unset.rate=true", r"^env\.unset\.rate=true: .*float"),
        ("env.unset.steps=1.5", r"^env\.unset\.steps=1\.5: .*int"),
    ],
)
def test_others_are_refused_by_name(override, message):
    with pytest.raises(ConfigError, match=message):
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
    with pytest.raises(ConfigError, match=f"^{key}=.*new_task"):
        check_overrides(nested(key, present), [f"{key}={value}"])


@pytest.mark.parametrize(
    ("key", "present", "value"),
    [
        # A plain name chooses among the library's own classes.
        ("agent.actor.distribution_cfg.class_name", "GaussianDistribution", "BetaDistribution"),
        ("agent.models.policy.network.activations", "elu", "relu"),
        *(
            ("env.label", "text", like)
            for like in ("cuda:0", "http://127.0.0.1:8000/a.usd", "omniverse://a.usd", "12:30")
        ),
    ],
)
def test_what_only_looks_like_code_is_text(key, present, value):
    check_overrides(nested(key, present), [f"{key}={value}"])


@pytest.mark.parametrize("word", ["none", "None", "null"])
def test_none_is_a_word_where_a_field_takes_nothing_but_text(word):
    key = "env.randomization"
    assert check_overrides(nested(key, "hard"), [f"{key}={word}"]) == [f"{key}='{word}'"]


@dataclass
class Presets:
    """A choice among presets, as Isaac Lab's PresetCfg."""

    coarse: Inner = field(default_factory=Inner)
    fine: Inner = field(default_factory=Inner)


def test_a_field_that_is_a_choice_takes_the_name_of_a_preset():
    unresolved = {"env": {"inner": Presets()}}
    check_overrides(CONFIGS, ["env.inner=fine", "env.inner.width=3"], unresolved, Presets)
    with pytest.raises(ConfigError, match=r"^env\.inner=finer: .* coarse, fine, "):
        check_overrides(CONFIGS, ["env.inner=finer"], unresolved, Presets)
    with pytest.raises(ConfigError, match=r"^env\.inner\.widht: "):
        check_overrides(CONFIGS, ["env.inner.widht=3"], unresolved, Presets)


@pytest.mark.parametrize(("key", "setting"), _SET_ELSEWHERE.items())
def test_what_would_have_no_effect_is_refused_and_the_setting_is_named(key: str, setting: str):
    assert setting in SETTINGS
    with pytest.raises(ConfigError, match=rf"^{key}=1 .* {setting} "):
        check_overrides(nested(key, 1), [f"{key}=1"])


@pytest.mark.parametrize(("key", "samples"), _HORIZONS.items())
def test_a_horizon_that_follows_from_the_samples_of_an_update_is_refused(key: str, samples: str):
    config = nested(key, 16)
    assert check_overrides(config, [f"{key}=32"]) == [f"{key}=32"], "agents of other packages keep theirs"

    parent = config
    for name in samples.split(".")[:-1]:
        parent = parent[name]
    parent["samples_per_update"] = 4096
    with pytest.raises(ConfigError, match=f"^{key}=32 .* {samples}, "):
        check_overrides(config, [f"{key}=32"])


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
        ("agent.algorithm.long_motion_discount", [0.0, 10.0], ["-1"]),
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
        with pytest.raises(ConfigError, match=re.escape(f" {taken[0]}.")) as refusal:
            check_overrides(nested(key, taken[0]), [f"{key}={text}"])
        assert str(refusal.value).startswith(f"{key}={text}: ")


@given(text=st.text(max_size=20) | st.text(st.sampled_from("[](){}:,'\"0189.e+-j "), max_size=12))
def test_whatever_is_written_is_taken_or_refused_by_the_fields_name(text: str):
    for key in ("env.inner.width", "env.inner.crop", "env.inner.name", "env.inner", "agent.params.lr"):
        try:
            check_overrides(CONFIGS, [f"{key}={text}"])
        except ConfigError as error:
            assert str(error).startswith(f"{key}=")  # noqa: PT017 (most texts are taken or refused as they please)
