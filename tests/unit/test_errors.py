# SPDX-License-Identifier: BSD-3-Clause
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError, closest, describe_error, error_chain

RUNNERS = ["rsl_rl", "rl_games", "skrl", "sb3"]


def test_config_error_is_a_value_error():
    with pytest.raises(ValueError, match="num_envs=0"):
        raise ConfigError("num_envs=0: must be at least 1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rsl-rl", "did you mean rsl_rl or skrl?"),
        ("rl_game", "did you mean rl_games?"),
        ("SKRL", "did you mean skrl or rsl_rl?"),
        ("ppo", "known: rl_games, rsl_rl, sb3, skrl"),
    ],
)
def test_closest_names_the_nearest_first_or_all(name: str, expected: str):
    assert closest(name, RUNNERS) == expected


def test_closest_shows_the_names_as_they_are_spelt():
    assert closest("isaacpc-reach-franka-direct", ["IsaacPC-Reach-Franka-Direct"]) == (
        "did you mean IsaacPC-Reach-Franka-Direct?"
    )


def test_closest_reads_names_once():
    assert closest("reac", iter(["reach", "lift"])) == "did you mean reach?"


def test_closest_of_nothing_is_empty():
    assert closest("reach", []) == ""


@given(st.text(), st.lists(st.text(min_size=1)))
def test_closest_never_invents_a_name(name: str, names: list[str]):
    hint = closest(name, names)
    if not names:
        assert hint == ""
    elif hint.startswith("did you mean "):
        assert any(known in hint for known in names)
    else:
        assert hint == f"known: {', '.join(sorted(set(names)))}"


@given(st.lists(st.text(min_size=1), min_size=1), st.data())
def test_closest_finds_an_exact_name(names: list[str], data: st.DataObject):
    name = data.draw(st.sampled_from(names))
    assert closest(name, [name]) == f"did you mean {name}?"


def raised(*errors: Exception, suppress: bool = False) -> Exception:
    """Raise each error while the one before is handled, and return the last."""
    last = None
    for error in errors:
        error.__context__ = last
        error.__suppress_context__ = suppress
        last = error
    assert last is not None
    return last


def test_an_error_is_named_after_the_one_that_it_came_of():
    first, second, third = KeyError("camera"), OSError("no file\nhere"), ValueError("closed twice")
    assert describe_error(first) == "KeyError: 'camera'"
    assert describe_error(second) == "OSError: no file"
    assert describe_error(raised(first, second, third)) == "KeyError: 'camera'; then ValueError: closed twice"
    assert error_chain(third) == [first, second, third]

    first.__context__ = third
    assert error_chain(third) == [first, second, third]
    assert describe_error(raised(first, third, suppress=True)) == "ValueError: closed twice"


def test_a_description_is_short():
    first = TypeError("no such type")
    assert describe_error(raised(first, TypeError(f"no such type was raised with {'x' * 9000}"))) == describe_error(
        first
    )
    assert len(describe_error(raised(first, ValueError("x" * 9000)))) < 400
    assert describe_error(raised(AssertionError(), ValueError("closed"))) == "AssertionError: ; then ValueError: closed"
