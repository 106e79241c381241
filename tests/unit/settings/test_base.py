# SPDX-License-Identifier: BSD-3-Clause
"""Groups of settings: strict checks, and words for what a type takes."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import (
    Expects,
    ScriptSettings,
    Settings,
    Unit,
    check_value,
    describe_type,
    flatten,
    settings_of,
    shown,
)

Step = Annotated[float, Field(ge=1e-5, le=0.1)]
Size = Annotated[float | str, Expects("a size")]


class Inner(Settings):
    """A group."""

    group = "inner"

    count: Annotated[int, Field(ge=1, le=9)] = 3
    """How many."""


class Outer(Settings):
    """A schema."""

    name: Literal["left", "right"] = "left"
    """Which side it is on."""

    speed: Annotated[float, Field(gt=0, le=10), Unit("m/s")] | None = None
    """How
    fast."""

    inner: Inner = Inner()


class Own(ScriptSettings):
    """Settings that are read off a command line."""

    episodes: Annotated[int, Field(ge=1)] = 100
    """How many."""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "text"),
        (Annotated[int, Field(ge=1)], "a whole number of at least 1"),
        (Annotated[int, Field(ge=1, le=65536)], "a whole number from 1 to 65,536"),
        (Annotated[float, Field(gt=0)], "a number above 0"),
        (Annotated[float, Field(gt=0, le=0.1), Unit("s")], "a number above 0 and at most 0.1 s"),
        (Annotated[float, Field(le=1e30)], "a number at most 1e+30"),
        (Step | None, "null, or a number from 1e-05 to 0.1"),
        (Literal["a"], "a"),
        (Literal["a", "b"], "one of a, b"),
        (Literal["auto"] | Annotated[int, Field(ge=1)], "auto, or a whole number of at least 1"),
        (list[Annotated[int, Field(ge=1, le=2)]], "a list of a whole number from 1 to 2"),
        (Size | None, "null, or a size"),
    ],
)
def test_a_type_says_what_it_takes(kind: Any, words: str) -> None:
    assert describe_type(kind) == words


def test_settings_are_found_by_dotted_name_in_the_order_in_which_they_are_written() -> None:
    found = settings_of(Outer)
    assert list(found) == ["name", "speed", "inner.count"]
    assert found["inner.count"].key == "inner.count"
    assert found["inner.count"].meaning == "How many."
    assert found["speed"].meaning == "How fast."
    assert Outer().flat() == flatten({"name": "left", "speed": None, "inner": {"count": 3}})
    assert Outer().flat() == {"name": "left", "speed": None, "inner.count": 3}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "rihgt"}, "name=rihgt: expected one of left, right; did you mean right?"),
        ({"name": 3}, "name=3: expected one of left, right."),
        ({"speed": "fast"}, "speed=fast: expected null, or a number above 0 and at most 10 m/s."),
        ({"speed": float("nan")}, "speed=nan: expected null, or a number above 0 and at most 10 m/s."),
        ({"inner.count": 0}, "inner.count=0: expected a whole number from 1 to 9."),
        ({"inner.count": 3.0}, "inner.count=3.0: expected a whole number from 1 to 9."),
        ({"inner.count": True}, "inner.count=true: expected a whole number from 1 to 9."),
        ({"inner": 3}, "inner=3: expected a group of settings."),
        ({"inner.cuont": 3}, "inner.cuont is not a setting: did you mean inner.count?"),
        ({"nam": 3}, "nam is not a setting: did you mean name?"),
    ],
)
def test_a_refusal_names_the_setting_the_value_and_what_is_taken(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Outer().with_values(values)
    assert str(refusal.value) == message


def test_one_value_is_checked_without_the_others() -> None:
    setting = settings_of(RunSettings)["scaling.min"]
    check_value(setting, 64)  # above scaling.max, which this check knows nothing of
    with pytest.raises(ConfigError, match=r"^scaling\.min=1\.5: .*65,536"):
        check_value(setting, 1.5)


def test_settings_of_a_script_are_read_as_text() -> None:
    assert Own(episodes="7").episodes == 7  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"^episodes=0: "):
        Own(episodes=0)
    with pytest.raises(ConfigError, match=r"^episodes=many: "):
        Own(episodes="many")  # pyright: ignore[reportArgumentType]


def test_a_value_is_shown_on_one_line_and_not_longer_than_needed() -> None:
    assert shown(None) == "null"
    assert shown(True) == "true"
    assert shown("a\n\tb") == "a b"
    assert shown("x" * 81) == "x" * 80 + "..."
    assert shown("\udc80") == r"\udc80", "a byte of the command line that is no UTF-8"
