# SPDX-License-Identifier: BSD-3-Clause
"""The guard's settings for tasks of other packages; Isaac Lab is imported, no simulator is started."""

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.workers.resolve import resolve


def guard_of(*settings: str) -> GuardCfg | None:
    return resolve(compose(["device=cpu", "physics=newton_mjwarp", *settings]), 8, "foreign").guard


def test_a_task_of_another_package_is_guarded_as_set() -> None:
    guard = guard_of("task=Isaac-Cartpole-Direct", "guard.mode=raise", "guard.ends=truncated", "guard.max_abs=50")
    assert guard is not None
    assert (guard.mode, guard.ends, guard.max_abs) == ("raise", "truncated", 50)


def test_by_default_large_numbers_in_unknown_units_are_no_fault() -> None:
    guard = guard_of("task=Isaac-Cartpole")
    assert guard is not None
    assert guard.mode == "quarantine"
    assert guard.bounds("observation") == (-1e6, 1e6)


def test_our_tasks_bring_their_own_guard() -> None:
    assert guard_of("task=reach", "guard.max_abs=50") is None


def test_bounds_that_leave_nothing_open_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"guard\.max_abs"):
        guard_of("task=Isaac-Cartpole-Direct", "guard.max_abs=-1")
