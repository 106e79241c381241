# SPDX-License-Identifier: BSD-3-Clause
"""The marks of a solver's contact buffers, and the capacities that follow from them. Starts no simulator."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp
from hypothesis import given
from hypothesis import strategies as st
from mujoco_warp import OverflowType

from isaaclab_pc.physics.contacts import ContactMonitor, ContactUsage, grown
from tests.ptx.launches import interpreted


def solver_data(num_envs: int = 3, contacts: int = 20, rows: int = 50) -> Any:
    """The part of MuJoCo Warp's data that the monitor reads."""
    single = {name: wp.zeros(1, dtype=wp.int32, device="cpu") for name in ("nacon", "ncollision")}
    per_env = {name: wp.zeros(num_envs, dtype=wp.int32, device="cpu") for name in ("nefc", "overflow")}
    return SimpleNamespace(nworld=num_envs, naconmax=num_envs * contacts, njmax=rows, **single, **per_env)


def step(data: Any, points: int, pairs: int, rows: list[int], flags: int = 0) -> None:
    data.nacon.fill_(points)
    data.ncollision.fill_(pairs)
    data.nefc.assign(rows)
    wp.to_torch(data.overflow).bitwise_or_(torch.tensor([0] * (data.nworld - 1) + [flags], dtype=torch.int32))


def usage(used: tuple[int, int], capacity: tuple[int, int], overflowed: tuple[bool, bool], num_envs: int = 1) -> Any:
    contacts, constraints = (
        {"used": u, "capacity": c, "overflowed": o} for u, c, o in zip(used, capacity, overflowed, strict=True)
    )
    return ContactUsage(num_envs=num_envs, contacts=contacts, constraints=constraints, share=0.0)  # pyright: ignore


def test_the_most_of_any_step_is_kept() -> None:
    data = solver_data()
    monitor = ContactMonitor(data)
    for points, pairs, rows in [(12, 4, [5, 30, 7]), (6, 15, [40, 1, 1]), (0, 0, [0, 0, 0])]:
        step(data, points, pairs, rows)
        monitor.update()
    assert monitor.usage() == {
        "num_envs": 3,
        "contacts": {"used": 15, "capacity": 60, "overflowed": False},
        "constraints": {"used": 40, "capacity": 50, "overflowed": False},
        "share": 0.8,
    }
    assert monitor.share().shape == ()
    assert json.loads(json.dumps(monitor.usage())) == monitor.usage()


def test_the_same_is_kept_in_blocks_of_threads() -> None:
    data = solver_data(num_envs=300)
    monitor = ContactMonitor(data)
    step(data, 12, 15, list(range(300)), int(OverflowType.LS_ITERATIONS))
    with interpreted():
        monitor.update()
    assert monitor.usage()["contacts"]["used"] == 15
    assert monitor.usage()["constraints"]["used"] == 299
    assert float(monitor.share()) == pytest.approx(299 / 50)


@pytest.mark.parametrize(
    ("flag", "overflowed"),
    [
        (OverflowType.BROADPHASE, ["contacts"]),
        (OverflowType.NARROWPHASE, ["contacts"]),
        (OverflowType.NEFC, ["constraints"]),
        (OverflowType.NJMAX_NNZ, ["constraints"]),
        # These drop no contact.
        (OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS, []),
    ],
)
def test_an_overflow_between_two_looks_is_reported_for_good(flag: OverflowType, overflowed: list[str]) -> None:
    data = solver_data()
    monitor = ContactMonitor(data)
    step(data, 1, 1, [1, 1, 1], int(flag))
    step(data, 1, 1, [1, 1, 1])
    monitor.update()
    found: Any = monitor.usage()
    assert [name for name in ("contacts", "constraints") if found[name]["overflowed"]] == overflowed
    assert (found["share"] == 1.0) == bool(overflowed)


def test_a_solver_without_contacts_has_a_share() -> None:
    monitor = ContactMonitor(solver_data(contacts=0))
    monitor.update()
    assert monitor.usage()["share"] == 0.0


@pytest.mark.parametrize(
    ("used", "capacity", "overflowed", "num_envs", "expected"),
    [
        ((40, 100), (60, 200), (False, False), 1, {}),
        ((41, 100), (60, 200), (False, False), 1, {"contacts": 64}),
        ((40, 134), (60, 200), (False, False), 1, {"constraints": 208}),
        # All environments share the contacts.
        ((4100, 10), (6000, 200), (False, False), 100, {"contacts": 64}),
        # What was dropped is not in the mark.
        ((61, 100), (60, 200), (True, False), 1, {"contacts": 120}),
        ((10, 100), (60, 200), (True, False), 1, {"contacts": 120}),
        ((300, 900), (60, 200), (True, True), 1, {"contacts": 456, "constraints": 1352}),
    ],
)
def test_buffers_grow_with_headroom_and_at_least_double_after_an_overflow(
    used: tuple[int, int],
    capacity: tuple[int, int],
    overflowed: tuple[bool, bool],
    num_envs: int,
    expected: dict[str, int],
) -> None:
    assert grown(usage(used, capacity, overflowed, num_envs), headroom=1.5) == expected


def test_what_a_fresh_policy_uses_leaves_room_for_a_grasp() -> None:
    """Marks of the lift task on Newton with 16 environments: random actions, then the expert's grasp."""
    room = grown(usage((64, 17), (16 * 4, 17), (True, True), num_envs=16))
    assert 16 * room["contacts"] > 176
    assert room["constraints"] > 48


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(1, 64))
def test_a_use_below_the_new_capacity_needs_no_growth_any_more(used: int, capacity: int, num_envs: int) -> None:
    total = capacity * num_envs
    changes = grown(usage((used, 0), (total, 1), (used > total, False), num_envs))
    new = changes.get("contacts", capacity)
    assert new >= capacity
    assert grown(usage((used, 0), (new * num_envs, 1), (False, False), num_envs)) == {}
