# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import dataclass, field

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.workers.overrides import check_overrides


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
        "env.inner=preset_name",
        "env.layers.0.width=3",
        "agent.params.lr=0.1",
        "agent.params.layers=[32]",
    ],
)
def test_fields_that_exist_take_values_of_their_type(override):
    check_overrides(CONFIGS, [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.inner.widht=64", r"env\.inner has no field widht: did you mean width\?"),
        ("env.iner.width=64", r"env has no field iner: did you mean inner\?"),
        ("env.inner.width.x=1", r"env\.inner\.width has no field x"),
        ("agent.params.learning=1", r"agent\.params has no field learning: known: layers, lr"),
        ("env.layers.1.width=3", r"env\.layers has no field 1"),
        ("env.inner.width=wide", "expected a whole number, like the present 48"),
        ("env.inner.width=1.5", "expected a whole number"),
        ("env.inner.width=true", "expected a whole number"),
        ("env.inner.scale=big", "expected a number, like the present 0.5"),
        ("env.inner.on=1", "expected true or false"),
        ("env.inner.crop=1", "expected a list"),
        ("env.inner=3", "expected one of its fields, or a preset, like the present Inner"),
    ],
)
def test_others_are_refused_by_name(override, message):
    with pytest.raises(ConfigError, match=message):
        check_overrides(CONFIGS, [override])
