# SPDX-License-Identifier: BSD-3-Clause
"""Every setting, with whatever somebody may write: it is taken or refused by its name, and nothing else happens."""

import types
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hydra.core.override_parser.types import QuotedString
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import task_names
from isaaclab_pc.launch.command_line import override_value, parse_command, parse_override
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import OneOf, _unpacked, check_value
from isaaclab_pc.settings.run import SETTINGS, VISUALIZER_NAMES

TASK = "IsaacPC-Reach-Franka-Direct"

FEW = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For each of some fifty settings."""

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


def interval() -> SearchStrategy[list[float]]:
    edges = st.tuples(st.floats(-100, 100), st.floats(-100, 100))
    return edges.filter(lambda pair: pair[0] != pair[1]).map(sorted)


SEEDS = ("seed", "eval.seed", "eval.best_seed")
"""Settings that must differ from each other."""

VALID_BY_KEY: dict[str, SearchStrategy[Any]] = {
    "task": st.sampled_from(["reach", TASK]),
    "resume": st.none() | st.sampled_from(["latest", "best", "logs/rsl_rl/reach/2026", "a b/model_3.pt"]),
    "init": st.none() | st.sampled_from(["pretrained", "logs/rsl_rl/reach/2026", "a b/model_3.pt"]),
    "teacher": st.none() | st.sampled_from(["expert", "logs/rsl_rl/reach_state/2026", "a b/model_3.pt"]),
    "device": st.sampled_from(["auto", "cpu", "cuda", "cuda:0", "cuda:12", "cuda:0,cuda:1"]),
    "rendezvous": st.none() | st.sampled_from(["alpha", "alpha.example.org:29400", "10.0.0.1:1"]),
    "host": st.sampled_from(["127.0.0.1", "0.0.0.0", "192.168.1.7"]),
    "visualizer": st.none()
    | st.sampled_from(VISUALIZER_NAMES)
    | st.lists(st.sampled_from(VISUALIZER_NAMES), min_size=1, unique=True),
    "points.crop": st.none() | st.lists(interval(), min_size=3, max_size=3),
    "points.features": st.none() | st.lists(st.sampled_from(["rgb", "normals", "segmentation", "camera"]), unique=True),
    "scaling.budget": st.none() | st.floats(1e-4, 1) | st.sampled_from(["0.8", "80%", "20GiB", "1.5 TB", "512M"]),
}
"""Of those whose types say by a function what they take."""


def valid(key: str) -> SearchStrategy[Any]:
    """Values that the type of a setting takes, its bounds among them."""
    return VALID_BY_KEY[key] if key in VALID_BY_KEY else _of_type(SETTINGS[key].type)


def _of_type(kind: Any) -> SearchStrategy[Any]:
    base, metadata = _unpacked(kind)
    for part in metadata:
        if isinstance(part, OneOf):
            return st.sampled_from(part.names)

    if get_origin(base) in (Union, types.UnionType):
        return st.one_of(*map(_of_type, get_args(base)))
    if get_origin(base) is Literal:
        return st.sampled_from(get_args(base))
    if base is type(None):
        return st.none()
    if base is bool:
        return st.booleans()

    bounds = {name: getattr(part, name) for part in metadata for name in ("gt", "ge", "le") if hasattr(part, name)}
    least = bounds.get("ge", bounds.get("gt"))
    most = bounds["le"]
    edges = [most] if "gt" in bounds else [least, most]
    if base is int:
        return st.sampled_from(edges) | st.integers(least, most)
    assert base is float, f"the test does not know how to draw from {kind}"
    return st.sampled_from(edges) | st.floats(least, most, exclude_min="gt" in bounds)


def refusal_of(check: Any) -> str | None:
    """Return what a ConfigError says; None where there was none."""
    try:
        check()
    except ConfigError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True)
def _without_isaac_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this package's tasks are known: others are read by a child that takes seconds."""
    monkeypatch.setattr(task_names, "all_ids", list)


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


@pytest.mark.parametrize("key", [*SETTINGS, "physics"])
@given(text=COMMAND_LINE_JUNK)
@FEW
def test_junk_on_a_command_line_is_taken_or_refused_by_the_settings_name(key: str, text: str) -> None:
    refusal = refusal_of(lambda: parse_command([f"{key}={text}"]))
    assert refusal is None or refusal.startswith(f"{key}=")


@pytest.mark.parametrize("key", SETTINGS)
@given(
    text=st.sampled_from(["glob(*)", "range(1,3)", "range(1,3,0)", "range(1,1e12)", "interval(0,1)", "choice()"])
    | st.lists(st.integers(-9, 9) | st.text(st.sampled_from("ab[]{}'()0"), max_size=5), min_size=2).map(
        lambda values: ",".join(map(str, values))
    )
)
@FEW
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

    command = parse_command([f"{key}={override_value(value)}" for key, value in values.items()])
    composed = compose(command.settings).flat()
    assert {key: composed[key] for key in values} == values


@given(value=st.text(max_size=12) | st.text(st.sampled_from("\\'\"$,:=[]{}()# -.a1"), max_size=8))
def test_any_text_comes_through_the_command_line_unchanged(value: str) -> None:
    read = parse_override(f"key={override_value([value])}").value()
    assert [element.text if isinstance(element, QuotedString) else element for element in read] == [value]
