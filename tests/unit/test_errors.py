# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import closest, describe_error, error_chain

RUNNERS = ["rsl_rl", "rl_games", "skrl", "sb3"]


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("rsl-rl", RUNNERS, "did you mean rsl_rl or skrl?"),
        ("rl_game", RUNNERS, "did you mean rl_games?"),
        ("SKRL", RUNNERS, "did you mean skrl or rsl_rl?"),
        ("ppo", RUNNERS, "known: rl_games, rsl_rl, sb3, skrl"),
        ("isaacpc-reach", ["IsaacPC-Reach"], "did you mean IsaacPC-Reach?"),
        ("reac", iter(["reach", "lift"]), "did you mean reach?"),
    ],
)
def test_closest_names_the_nearest_first_or_all(name: str, names: Iterable[str], expected: str):
    assert closest(name, names) == expected


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
    assert closest(name, [name]).endswith(f" {name}?")


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
    first, second, third = KeyError("camera"), OSError("lost\nhere"), ValueError("closed")
    assert describe_error(first) == "KeyError: 'camera'"
    assert describe_error(second) == "OSError: lost"
    assert describe_error(raised(first, second, third)) == "KeyError: 'camera'; then ValueError: closed"
    assert error_chain(third) == [first, second, third]

    first.__context__ = third
    assert error_chain(third) == [first, second, third]
    assert describe_error(raised(first, third, suppress=True)) == "ValueError: closed"


def test_a_description_is_short():
    first = TypeError("no such type")
    assert describe_error(raised(first, TypeError(f"no such type was raised with {'x' * 9000}"))) == describe_error(
        first
    )
    assert len(describe_error(raised(first, ValueError("x" * 9000)))) < 400
    assert describe_error(raised(AssertionError(), ValueError("closed"))) == "AssertionError: ; then ValueError: closed"
