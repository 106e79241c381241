# SPDX-License-Identifier: BSD-3-Clause
"""Objects by their definitions: mass, resting poses, and grasps between open fingers."""

from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.objects import DENSITY
from isaaclab_pc.assets.objects.families import ALL, DRAWN, UNSEEN
from isaaclab_pc.assets.objects.graspable import MASSES, Graspable, make_graspable
from isaaclab_pc.assets.objects.grasping import FINGER_DEPTH, OPENING, PAD_HALF_HEIGHT, PAD_HALF_WIDTH
from isaaclab_pc.assets.objects.sets import SETS, make_object
from isaaclab_pc.errors import ConfigError

BOX = (0.03, 0.05, 0.1)


def box_parts(size: tuple[float, float, float] = BOX) -> list[np.ndarray]:
    return [trimesh.creation.box(size).vertices + 0.3]


@pytest.fixture(scope="module", params=ALL)
def graspable(request: pytest.FixtureRequest) -> Graspable:
    return make_object((request.param, 77))


def whole_of(graspable: Graspable) -> trimesh.Trimesh:
    parts = graspable.parts()
    return parts[0] if len(parts) == 1 else trimesh.boolean.union(parts, engine="manifold")


def test_the_origin_is_the_centre_of_mass(graspable: Graspable) -> None:
    whole = whole_of(graspable)
    np.testing.assert_allclose(whole.center_mass, 0.0, atol=1e-5)
    assert graspable.mass == pytest.approx(np.clip(DENSITY * whole.volume, *MASSES), rel=1e-3)
    np.testing.assert_allclose(
        graspable.inertia, whole.moment_inertia * graspable.mass / whole.volume, rtol=2e-3, atol=1e-9
    )


def test_it_stands_on_its_hull_in_each_resting_pose(graspable: Graspable) -> None:
    assert graspable.rest_chance.sum() == pytest.approx(1.0)
    for quat, height in zip(graspable.rest_quat, graspable.rest_height, strict=True):
        at = Rotation.from_quat(quat).apply(graspable.vertices)
        assert at[:, 2].min() == pytest.approx(-height, abs=1e-6)
        support = at[at[:, 2] < -height + 2e-4, :2]
        # The centre of mass, the origin, is over the hull of what touches the table: no half plane leaves it out.
        angles = np.linspace(0.0, 2.0 * np.pi, 60)
        along = support @ np.stack([np.cos(angles), np.sin(angles)])
        assert (along.max(axis=0) > -1e-4).all()


def test_each_grasp_has_room_for_open_fingers_and_an_object_between(graspable: Graspable) -> None:
    whole = whole_of(graspable)
    points, *_ = trimesh.sample.sample_surface(whole, 4000, seed=3)
    assert (np.bincount(graspable.grasp_rest) >= 3).all()
    for index in range(0, len(graspable.grasp_width), 7):
        tool = Rotation.from_quat(graspable.grasp_quat[index])
        rest = graspable.grasp_rest[index]
        turn = Rotation.from_quat(graspable.rest_quat[rest])
        # The tool's z points down there, and the pads end above the table.
        np.testing.assert_allclose((turn * tool).apply([0.0, 0.0, 1.0]), [0.0, 0.0, -1.0], atol=1e-6)
        height = turn.apply(graspable.grasp_position[index])[2] + graspable.rest_height[rest]
        assert height > PAD_HALF_HEIGHT

        x, y, z = tool.inv().apply(points - graspable.grasp_position[index]).T
        pads = np.abs(x) < PAD_HALF_WIDTH - 0.001
        fingers = pads & (z < PAD_HALF_HEIGHT) & (z > -0.04)
        fingers &= (np.abs(y) > OPENING) & (np.abs(y) < OPENING + FINGER_DEPTH)
        assert not fingers.any()
        between = y[pads & (np.abs(z) < PAD_HALF_HEIGHT) & (np.abs(y) < OPENING)]
        assert np.ptp(between) == pytest.approx(graspable.grasp_width[index], abs=0.004)


@settings(max_examples=6)
@given(size=st.tuples(*[st.floats(0.022, 0.06)] * 3))
def test_a_box_is_grasped_across_its_faces(size: tuple[float, float, float]) -> None:
    made = make_graspable("box", box_parts(size))
    across = np.array(sorted(size))
    for quat, width in zip(made.grasp_quat, made.grasp_width, strict=True):
        axis = np.abs(Rotation.from_quat(quat).apply([0.0, 1.0, 0.0]))
        # Yaws are 15 degrees apart, so that a face may be met at an angle, but at no corner.
        assert axis.max() > 0.85
        assert np.abs(across - width).min() < 0.02


def test_masses_and_inertias_of_a_box_are_exact() -> None:
    made = make_graspable("box", box_parts(), masses=(0.0, 1.0))
    x, y, z = BOX
    assert made.mass == pytest.approx(DENSITY * x * y * z)
    expected = made.mass / 12 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    np.testing.assert_allclose(np.diag(made.inertia), expected, rtol=1e-6)
    assert sorted(made.rest_height.round(6)) == [0.015, 0.015, 0.025, 0.025, 0.05, 0.05]


def test_what_cannot_be_grasped_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"10\.0 x 10\.0 x 10\.0 cm"):
        make_graspable("cube", box_parts((0.1, 0.1, 0.1)))


def test_a_saved_object_is_loaded_as_it_was(tmp_path: Path, graspable: Graspable) -> None:
    graspable.save(tmp_path / "one.npz")
    loaded = Graspable.load(tmp_path / "one.npz")
    for name, value in vars(graspable).items():
        np.testing.assert_array_equal(getattr(loaded, name), value)


@given(seed=st.integers(0, 10_000), family=st.sampled_from(sorted(DRAWN)))
@example(seed=661, family="compound")
def test_what_is_drawn_is_one_piece(seed: int, family: str) -> None:
    parts = DRAWN[family](np.random.default_rng(seed))
    whole = trimesh.boolean.union([trimesh.convex.convex_hull(points) for points in parts], engine="manifold")
    assert whole.volume > 1e-6
    # A sliver where walls meet has no volume, and a void that bodies enclose a negative one.
    assert sum(body.volume > 1e-10 for body in whole.split(only_watertight=False)) == 1


def test_the_same_seed_makes_the_same_object_and_another_one_another() -> None:
    first, again, other = (make_object(("mug", seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.grasp_position, again.grasp_position)
    assert first.mass != other.mass or first.vertices.shape != other.vertices.shape


def test_the_sets_share_no_object_and_half_of_the_held_out_ones_are_of_unseen_families() -> None:
    train, held_out = SETS["train"], SETS["held_out"]
    assert len(set(train)) == len(train) == 256
    assert sum(family in DRAWN for family, _ in train) == 160
    assert len(set(held_out)) == 48
    assert not set(train) & set(held_out)
    assert not {family for family, _ in train} & set(UNSEEN)
    assert sum(family in UNSEEN for family, _ in held_out) == 24
