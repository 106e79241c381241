# SPDX-License-Identifier: BSD-3-Clause
"""Cabinet and valve: the committed files are what the code writes, nothing is in the way, and the gripper fits."""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pxr import Usd, UsdGeom, UsdPhysics

from isaaclab_pc.assets.articulated import (
    CABINET_SIZE,
    CABINET_USD,
    DRAWER_TRAVEL,
    HANDLE_CENTER,
    HANDLE_GAP,
    KNOB_CENTER,
    VALVE_USD,
)
from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from tools.assets import author_articulated
from tools.assets.author_articulated import KNOB_RADIUS, author_cabinet, author_valve
from tools.assets.author_franka import FRANKA
from tools.assets.kinematics import forward_kinematics

LARGEST_YAW = 0.42  # [rad], the drawer task's range widened by a fifth


def boxes(usd: Path, root: str) -> dict[str, NDArray[np.float64]]:
    """Return the shapes below a prim as lower and upper corners, (2, 3), by path; nothing in the files is turned."""
    stage = Usd.Stage.Open(str(usd))
    cache = UsdGeom.BBoxCache(Usd.TimeCode.Default(), [UsdGeom.Tokens.default_])
    prims = [prim for prim in Usd.PrimRange(stage.GetPrimAtPath(root)) if prim.IsA(UsdGeom.Gprim)]
    ranges = {str(prim.GetPath()): cache.ComputeWorldBound(prim).ComputeAlignedRange() for prim in prims}
    return {path: np.array([box.GetMin(), box.GetMax()]) for path, box in ranges.items()}


def overlap(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    return bool((np.minimum(first[1], second[1]) - np.maximum(first[0], second[0]) > 1e-6).all())


def closed_gripper() -> dict[str, NDArray[np.float64]]:
    """Return hand and fingers as boxes around the tool centre, in the hand's axes."""
    poses = forward_kinematics({}, FRANKA.joints)
    to_tool = np.linalg.inv(poses["panda_hand"])
    to_tool[2, 3] -= FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset
    parts = {}
    for link in ("panda_hand", "panda_leftfinger", "panda_rightfinger"):
        for index, shape in enumerate(FRANKA.shapes[link]):
            corners = (
                np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(shape.size) / 2
            )
            placed = (to_tool @ poses[link] @ np.c_[corners + shape.center, np.ones(8)].T)[:3].T
            parts[f"{link}_{index}"] = np.array([placed.min(axis=0), placed.max(axis=0)])
    return parts


@pytest.mark.parametrize(("author", "committed"), [(author_cabinet, CABINET_USD), (author_valve, VALVE_USD)])
def test_committed_file_is_what_the_script_writes(tmp_path: Path, author: Callable, committed: Path) -> None:
    author(tmp_path / "written.usda")
    written = (tmp_path / "written.usda").read_text(encoding="utf-8")
    assert written == committed.read_text(encoding="utf-8"), f"run: python -m {author_articulated.__name__}"


@pytest.mark.parametrize(("usd", "base"), [(CABINET_USD, "/cabinet/body"), (VALVE_USD, "/valve/stand")])
def test_the_base_is_fixed_and_stands_on_the_ground(usd: Path, base: str) -> None:
    stage = Usd.Stage.Open(str(usd))
    root = stage.GetDefaultPrim()
    assert root.HasAPI(UsdPhysics.ArticulationRootAPI)
    anchor = UsdPhysics.Joint.Get(stage, f"{root.GetPath()}/joints/root_joint")
    assert not anchor.GetBody0Rel().GetTargets()
    assert [str(path) for path in anchor.GetBody1Rel().GetTargets()] == [base]
    assert min(box[0, 2] for box in boxes(usd, base).values()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("opening", [0.0, 0.5, 1.0])
def test_the_drawer_slides_freely(opening: float) -> None:
    shift = np.array([-opening * DRAWER_TRAVEL, 0.0, 0.0])
    body = boxes(CABINET_USD, "/cabinet/body")
    for path, box in boxes(CABINET_USD, "/cabinet/drawer").items():
        assert [other for other, wall in body.items() if overlap(box + shift, wall)] == [], path


def test_a_closed_drawer_is_flush_with_the_cabinet() -> None:
    everything = boxes(CABINET_USD, "/cabinet").items()
    solid = np.array([box for path, box in everything if "handle" not in path])
    np.testing.assert_allclose(solid[:, 1].max(axis=0) - solid[:, 0].min(axis=0), CABINET_SIZE, atol=1e-6)


def test_a_closed_gripper_fits_behind_the_bar_at_any_yaw() -> None:
    shapes = boxes(CABINET_USD, "/cabinet").values()
    middle = np.add(HANDLE_CENTER, (HANDLE_GAP / 2, 0.0, 0.0))
    for yaw in np.linspace(-LARGEST_YAW, LARGEST_YAW, 9):
        for name, part in closed_gripper().items():
            half = (part[1] - part[0])[:2] / 2
            center = part.mean(axis=0)
            turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            # A hand that points down has its y and z axes against those of the environment.
            place = middle + np.array([*(turn @ (center[:2] * [1, -1])), -center[2]])
            reach = np.array([*(np.abs(turn) @ half), (part[1] - part[0])[2] / 2])
            around = np.array([place - reach, place + reach])
            assert not any(overlap(around, shape) for shape in shapes), (name, yaw)


def test_a_gripper_around_the_knob_touches_nothing_else() -> None:
    lowest = KNOB_CENTER[2] - max(part[1, 2] for part in closed_gripper().values())
    others = {path: box for path, box in boxes(VALVE_USD, "/valve").items() if "handle" not in path}
    assert max(box[1, 2] for box in others.values()) < lowest - 0.005
    (knob,) = boxes(VALVE_USD, "/valve/valve/handle").values()
    np.testing.assert_allclose(knob.mean(axis=0)[:2], KNOB_CENTER[:2], atol=1e-6)
    # The pads, 19 mm high, press on the knob's straight part.
    assert knob[0, 2] + KNOB_RADIUS < KNOB_CENTER[2] - 0.005
    assert knob[1, 2] - KNOB_RADIUS > KNOB_CENTER[2] + 0.005
    hand = closed_gripper()["panda_hand_0"]
    assert knob[1, 2] < KNOB_CENTER[2] - hand[1, 2]
