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

from isaaclab_pc.assets.articulated.cabinets import CABINETS, Cabinet
from isaaclab_pc.assets.articulated.cfg import CABINET_USD, VALVE_USD
from isaaclab_pc.assets.articulated.valves import PAD_HEIGHT, VALVES, Valve
from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from tools.assets import author_articulated
from tools.assets.author_articulated import author_cabinet, author_valve
from tools.assets.author_franka import FRANKA
from tools.assets.kinematics import forward_kinematics

LARGEST_YAW = 0.42  # [rad], the drawer task's range widened by a fifth


def boxes(usd: Path | str, root: str) -> dict[str, NDArray[np.float64]]:
    """Return the boxes around the shapes below a prim as lower and upper corners, (2, 3), by path."""
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


def boxes_around(size: Cabinet | Valve) -> dict[str, NDArray[np.float64]]:
    """Return the boxes around all shapes as lower and upper corners, (2, 3), by path."""
    around = {}
    for path, shapes in size.shapes().items():
        for index, shape in enumerate(shapes):
            if shape.kind == "box":
                cos, sin = abs(np.cos(shape.yaw)), abs(np.sin(shape.yaw))
                x, y, z = shape.size
                half = np.array([cos * x + sin * y, sin * x + cos * y, z]) / 2
            else:
                radius, length = shape.size
                half = np.full(3, radius)
                half["xyz".index(shape.kind[-1])] += length / 2
            around[f"{path}/{index}"] = np.array([shape.center - half, shape.center + half])
    return around


@pytest.fixture(params=["one", "train", "held_out"])
def dealt_cabinets(request: pytest.FixtureRequest) -> list[tuple[Cabinet, dict[str, NDArray[np.float64]]]]:
    """Every cabinet of a set with its boxes by path."""
    return [(size, boxes_around(size)) for size in CABINETS[request.param]]


@pytest.fixture(params=["one", "train", "held_out"])
def dealt_valves(request: pytest.FixtureRequest) -> list[tuple[Valve, dict[str, NDArray[np.float64]]]]:
    """Every valve of a set with its boxes by path."""
    return [(size, boxes_around(size)) for size in VALVES[request.param]]


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


def test_drawers_slide_freely(dealt_cabinets: list) -> None:
    for size, shapes in dealt_cabinets:
        body = {path: box for path, box in shapes.items() if path.startswith("body")}
        for opening in (0.0, 0.5, 1.0):
            shift = np.array([-opening * size.travel, 0.0, 0.0])
            for path in shapes.keys() - body.keys():
                assert [wall for wall in body if overlap(shapes[path] + shift, body[wall])] == [], (size, path)


def test_closed_drawers_are_flush_with_their_cabinets(dealt_cabinets: list) -> None:
    for size, shapes in dealt_cabinets:
        solid = np.array([box for path, box in shapes.items() if "handle" not in path])
        extent = solid[:, 1].max(axis=0) - solid[:, 0].min(axis=0)
        np.testing.assert_allclose(extent, (size.depth, size.width, size.height), atol=1e-6)


def test_handles_are_on_their_drawers(dealt_cabinets: list) -> None:
    for size, shapes in dealt_cabinets:
        handle = np.array([box for path, box in shapes.items() if "handle" in path])
        front = shapes["drawer/drawer/0"]
        assert (handle[:, 0, 1:].min(axis=0) >= front[0, 1:] - 1e-6).all(), size
        assert (handle[:, 1, 1:].max(axis=0) <= front[1, 1:] + 1e-6).all(), size
        assert handle[:, 1, 0].max() == pytest.approx(front[0, 0])


def test_a_closed_gripper_fits_behind_handles_at_any_yaw(dealt_cabinets: list) -> None:
    gripper = closed_gripper()
    for size, shapes in dealt_cabinets:
        middle = np.add(size.handle_center, (size.gap / 2, 0.0, 0.0))
        for yaw in np.linspace(-LARGEST_YAW, LARGEST_YAW, 9):
            turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            for name, part in gripper.items():
                half = (part[1] - part[0])[:2] / 2
                center = part.mean(axis=0)
                # A hand that points down has its y and z axes against those of the environment.
                place = middle + np.array([*(turn @ (center[:2] * [1, -1])), -center[2]])
                reach = np.array([*(np.abs(turn) @ half), (part[1] - part[0])[2] / 2])
                around = np.array([place - reach, place + reach])
                assert [path for path in shapes if overlap(around, shapes[path])] == [], (name, yaw, size)


def test_a_gripper_around_a_knob_touches_nothing_else(dealt_valves: list) -> None:
    lowest = PAD_HEIGHT - max(part[1, 2] for part in closed_gripper().values())
    for size, shapes in dealt_valves:
        others = [box[1, 2] for path, box in shapes.items() if "handle" not in path]
        assert max(others) < lowest - 0.005
        knob = shapes["valve/handle/0"]
        np.testing.assert_allclose(knob.mean(axis=0)[:2], (size.radius, 0.0), atol=1e-6)
        # The pads, 19 mm high, press on the knob's straight part.
        assert knob[0, 2] < PAD_HEIGHT - 0.005
        assert knob[1, 2] - size.knob_radius > PAD_HEIGHT + 0.005
        assert knob[1, 2] < PAD_HEIGHT - closed_gripper()["panda_hand_0"][1, 2]


def test_knobs_stand_on_their_valves(dealt_valves: list) -> None:
    for size, shapes in dealt_valves:
        stem = shapes["valve/handle/1"]
        assert overlap(stem, shapes["valve/handle/0"]), size
        assert any(overlap(stem, box) for path, box in shapes.items() if "handle" not in path), size


def test_sets_have_all_kinds_and_no_member_twice() -> None:
    for sets in (CABINETS, VALVES):
        everything = [str(member) for members in sets.values() for member in members]
        assert len(set(everything)) == len(everything)
    for name in ("train", "held_out"):
        assert {each.handle for each in CABINETS[name]} == {"bar", "knob", "edge"}
        assert {each.side for each in CABINETS[name]} == {-1, 0, 1}
        assert {each.spokes for each in VALVES[name]} == set(range(1, 9))


def test_all_of_a_file_have_as_many_shapes_of_the_same_kinds() -> None:
    for sets in (CABINETS, VALVES):
        everything = [member.shapes() for members in sets.values() for member in members]
        kinds = [{path: [shape.kind for shape in each] for path, each in shapes.items()} for shapes in everything]
        assert all(each == kinds[0] for each in kinds)
