# SPDX-License-Identifier: BSD-3-Clause
"""Hydra's sweeps as search spaces."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.cluster.search_space import SearchSpace, draw, read_space
from isaaclab_pc.errors import ConfigError

# Sets environment variables when it is loaded, which no test may.
pytest.importorskip("ray.tune")


@pytest.mark.parametrize(
    ("value", "values", "kind", "highest"),
    [
        ("1,3,2", ("1", "3", "2"), "choice", "3"),
        ("choice(0.005,0.01)", ("0.005", "0.01"), "choice", "0.01"),
        ("fast,robust", ("fast", "robust"), "choice", "fast"),
        ("[1,2],[3]", ("[1,2]", "[3]"), "choice", "[1,2]"),
        ("range(1,10,3)", ("1", "4", "7"), "choice", "7"),
        ("interval(0.5,2)", ("0.5", "2.0"), "uniform", "2.0"),
        ("int(interval(1,4))", ("1", "4"), "randint", "4"),
        ("tag(log,interval(1e-5,1e-3))", ("1e-05", "0.001"), "loguniform", "0.001"),
        ("tag(log,int(interval(1,100)))", ("1", "100"), "lograndint", "100"),
    ],
)
def test_every_sweep_of_hydra_is_a_search_space(value, values, kind, highest):
    space = read_space(f"a.b={value}")
    assert space is not None
    assert space == SearchSpace("a.b", values, kind)
    assert space.highest == highest


@pytest.mark.parametrize("text", ["a=1", "a='x,y'", "a=[1,2]", "a=null"])
def test_one_value_is_not_searched(text):
    assert read_space(text) is None


@pytest.mark.parametrize(
    "value",
    [
        *("interval(2,1)", "interval(1,1)", "interval(nan,1)", "interval(1"),
        *("tag(log,interval(0,1))", "tag(normal,interval(0,1))", "tag(log,choice(1,2))"),
        *("range(1,1e9)", "range(3,1)", "glob(*)"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused_in_one_line(value):
    with pytest.raises(ConfigError) as error:
        read_space(f"a={value}")
    assert f"a={value}" in str(error.value)
    assert "\n" not in str(error.value)


def test_draws_are_different_within_bounds_and_come_again():
    spaces = [
        SearchSpace("rate", ("1e-05", "0.001"), "loguniform"),
        SearchSpace("epochs", ("1", "3"), "randint"),
        SearchSpace("sampler", ("fps", "grid"), "choice"),
    ]
    drawn = draw(spaces, 200, seed=7)
    assert drawn == draw(spaces, 200, seed=7) != draw(spaces, 200, seed=8)
    assert len({tuple(values.values()) for values in drawn}) == 200
    rates = [float(values["rate"]) for values in drawn]
    assert min(rates) >= 1e-5
    assert max(rates) <= 1e-3
    assert 60 < sum(rate < 1e-4 for rate in rates) < 140, "half of them below the middle of a logarithmic interval"
    assert {values["epochs"] for values in drawn} == {"1", "2", "3"}
    assert {values["sampler"] for values in drawn} == {"fps", "grid"}


def test_a_few_choices_are_all_drawn_once():
    spaces = [SearchSpace("a", ("1", "2", "3"), "choice"), SearchSpace("b", ("x", "y"), "choice")]
    drawn = draw(spaces, 20, seed=0)
    assert sorted(tuple(values.values()) for values in drawn) == [(a, b) for a in "123" for b in "xy"]


@given(st.floats(1e-9, 1e9), st.floats(1.0001, 1e3), st.integers(0, 99))
def test_rounding_leaves_no_draw_beyond_the_ends(low, factor, seed):
    ends = (repr(low), repr(low * factor))
    for values in draw([SearchSpace("a", ends, "uniform")], 3, seed):
        assert low <= float(values["a"]) <= low * factor
        assert math.isfinite(float(values["a"]))
