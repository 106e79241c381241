# SPDX-License-Identifier: BSD-3-Clause
"""Kept quantities are computed once while nothing moves, and never read when something may have moved."""

import pytest

from isaaclab_pc.envs.kept import StandingState, kept


class Scene:
    """Something that moves, and two quantities of it."""

    def __init__(self) -> None:
        self.standing_state = StandingState()
        self.position = 0.0
        self.computed: list[str] = []

    @kept
    def height(self) -> float:
        """Height [m]."""
        self.computed.append("height")
        return self.position

    @kept
    def twice(self) -> float:
        self.computed.append("twice")
        return 2.0 * self.height


class OtherScene(Scene):
    @kept
    def height(self) -> float:
        return super().height + 100.0


def test_a_value_is_computed_once_inside_and_at_each_reading_outside() -> None:
    scene = Scene()
    assert (scene.height, scene.height) == (0.0, 0.0)
    assert scene.computed == ["height", "height"]
    scene.computed.clear()
    with scene.standing_state.still():
        assert (scene.twice, scene.twice, scene.height) == (0.0, 0.0, 0.0)
    assert scene.computed == ["twice", "height"]
    scene.position = 3.0
    assert (scene.height, scene.twice) == (3.0, 6.0)


def test_each_block_begins_with_nothing_and_an_error_ends_it() -> None:
    scene = Scene()
    with scene.standing_state.still():
        assert scene.height == 0.0
    scene.position = 1.0

    def fail() -> None:
        with scene.standing_state.still():
            assert scene.height == 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    scene.position = 2.0
    assert scene.height == 2.0


def test_a_block_within_another_leaves_nothing_that_may_be_old() -> None:
    scene = Scene()
    with scene.standing_state.still():
        assert scene.height == 0.0
        with scene.standing_state.still():
            assert scene.height == 0.0
        scene.position = 5.0
        assert scene.height == 5.0


def test_a_subclass_may_build_on_the_value_of_its_base() -> None:
    scene = OtherScene()
    with scene.standing_state.still():
        assert (scene.height, scene.twice) == (100.0, 200.0)
    assert Scene.height.__doc__ == "Height [m]."
