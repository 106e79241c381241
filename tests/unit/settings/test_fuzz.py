# SPDX-License-Identifier: BSD-3-Clause
"""Every setting, with whatever somebody may write: it is taken or refused by its name, and nothing else happens."""

from typing import Any

import pytest
from hydra.core.override_parser.types import QuotedString
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from isaaclab_pc.cli import task_names
from isaaclab_pc.cli.command_line import override_value, parse_command, parse_override
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import check_value
from isaaclab_pc.settings.run import SETTINGS
from tests.unit.settings.setting_values import SEEDS, TASK, refusal_of, valid

ANY_FIXTURE = [HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=20, suppress_health_check=ANY_FIXTURE)
"""For each setting."""

HUGE = st.integers(10**199, 10**200 - 1)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 1 << 33),
    HUGE,
    HUGE.map(lambda number: -number),
    st.floats(),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1e308, 1e21]),
    st.text(max_size=20),
    st.sampled_from(["", " ", "null", "auto", "8", "1e3", "nan", "cuda:9999", "x" * 3000, "\udc80", "a\x00b"]),
    st.binary(max_size=5),
)

JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _without_isaac_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this package's tasks are known: others are read by a child that takes seconds."""
    monkeypatch.setattr(task_names, "_listing", lambda: ({}, {}))


@pytest.mark.parametrize("key", SETTINGS)
@given(value=JUNK)
@FEW
def test_junk_is_taken_or_refused_by_the_settings_name(key: str, value: Any) -> None:
    alone = refusal_of(lambda: check_value(SETTINGS[key], value))
    together = refusal_of(lambda: RunSettings().with_values({key: value}))

    if alone is None:
        # A seed that both phases would share is all that one value alone does not show.
        assert together is None or (key in SEEDS and together.startswith(SEEDS))
    else:
        assert alone.startswith(f"{key}=")
        assert "\n" not in alone
        assert together == alone


@pytest.mark.parametrize("key", SETTINGS)
@given(data=st.data())
@FEW
def test_what_the_type_takes_is_taken(key: str, data: st.DataObject) -> None:
    value = data.draw(valid(key))
    check_value(SETTINGS[key], value)
    refusal = refusal_of(lambda: RunSettings().with_values({key: value}))
    assert refusal is None or (key in SEEDS and refusal.startswith(SEEDS))


COMMAND_LINE_JUNK = st.one_of(
    st.text(max_size=30),
    st.text(st.sampled_from("[]{}'\"\\,:=$().~+-@ 019aeE"), max_size=15),
    st.recursive(
        st.none() | st.booleans() | st.integers() | HUGE | st.floats() | st.sampled_from(["auto", "x" * 3000, "8"]),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=8,
    ).map(override_value),
    st.sampled_from(["9" * 5000, "-" + "9" * 5000, "1e400", "${seed}", "${oc.env:NO}", "???", "\udc80", "int(x)"]),
)


@given(key=st.sampled_from([*SETTINGS, "physics"]), text=COMMAND_LINE_JUNK)
@example(key="resume", text="9" * 5000)
@settings(max_examples=500, suppress_health_check=ANY_FIXTURE)
def test_junk_on_a_command_line_is_taken_or_refused_by_the_settings_name(key: str, text: str) -> None:
    refusal = refusal_of(lambda: parse_command([f"{key}={text}"]))
    assert refusal is None or refusal.startswith(f"{key}=")


@given(
    key=st.sampled_from(list(SETTINGS)),
    text=st.sampled_from(["glob(*)", "range(1,3)", "range(1,3,0)", "range(1,1e12)", "interval(0,1)", "choice()"])
    | st.lists(st.integers(-9, 9) | st.text(st.sampled_from("ab[]{}'()0"), max_size=5), min_size=2).map(
        lambda values: ",".join(map(str, values))
    ),
)
@settings(max_examples=500, suppress_health_check=ANY_FIXTURE)
def test_junk_in_a_sweep_is_taken_or_refused_by_the_settings_name(key: str, text: str) -> None:
    refusal = refusal_of(lambda: parse_command(["-m", f"{key}={text}"]))
    assert refusal is None or refusal.startswith(f"{key}")


@given(data=st.data())
@settings(max_examples=15)
def test_what_the_types_take_comes_through_the_command_line_unchanged(data: st.DataObject) -> None:
    values = {key: data.draw(valid(key), label=key) for key in SETTINGS}
    values["task"] = TASK
    values["eval.seed"] = (values["seed"] + 1) % 2**32
    values["eval.best_seed"] = (values["seed"] + 2) % 2**32
    values["scaling.min"], values["scaling.max"] = None, None
    # It stands for others.
    values["sim2real"] = False

    command = parse_command([f"{key}={override_value(value)}" for key, value in values.items()])
    composed = compose(command.settings).flat()
    assert {key: composed[key] for key in values} == values


@given(value=st.text(max_size=12) | st.text(st.sampled_from("\\'\"$,:=[]{}()# -.a1"), max_size=8))
def test_any_text_comes_through_the_command_line_unchanged(value: str) -> None:
    read: Any = parse_override(f"key={override_value([value])}").value()
    assert [element.text if isinstance(element, QuotedString) else element for element in read] == [value]
