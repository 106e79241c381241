# SPDX-License-Identifier: BSD-3-Clause
"""Which settings cure a trial, and how they reach a run."""

import math

import pytest

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.physics import HEADROOM
from isaaclab_pc.scaling import Outcome, Trial
from isaaclab_pc.scaling.auto_num_envs import adapt, changed


def usage(used: int, capacity: int, rows: int = 10, *, overflowed: bool = False) -> dict[str, object]:
    return {
        "num_envs": 8,
        "contacts": {"used": used, "capacity": capacity, "overflowed": overflowed},
        "constraints": {"used": rows, "capacity": 100, "overflowed": False},
        "share": used / capacity,
    }


def room(used: float) -> int:
    """Room for so much, with headroom, as a multiple of 8."""
    return 8 * math.ceil(HEADROOM * used / 8)


def test_overflowed_contact_buffers_grow_and_earlier_changes_stay() -> None:
    trial = Trial(8, Outcome.OVERFLOW, extra={"contacts": usage(100, 64, overflowed=True)})
    assert adapt(trial, {"minibatch_size": 64}) == {"minibatch_size": 64, "physics.contacts": room(100 / 8)}


def test_buffers_with_little_room_left_grow_too() -> None:
    assert adapt(Trial(8, Outcome.FITS, extra={"contacts": usage(60, 64, rows=90)}), {}) == {
        "physics.contacts": room(60 / 8),
        "physics.constraints": room(90),
    }
    assert adapt(Trial(8, Outcome.FITS, extra={"contacts": usage(int(64 / HEADROOM), 64)}), {}) is None


def test_physx_buffers_are_sized_by_what_physx_asked_for() -> None:
    buffers = {"gpu_max_rigid_patch_count": 1000, "gpu_heap_capacity": None}
    trial = Trial(8, Outcome.OVERFLOW, extra={"contacts": None, "physx_buffers": buffers})
    assert adapt(trial, {}) == {"env.sim.physics.gpu_max_rigid_patch_count": HEADROOM * 1000}


@pytest.mark.parametrize("outcome", [Outcome.OOM, Outcome.OVER_BUDGET])
def test_an_update_that_does_not_fit_gets_smaller_minibatches(outcome: Outcome) -> None:
    extra = {"phase": "update", "minibatch_size": 512}
    assert adapt(Trial(8, outcome, extra=extra), {}) == {"minibatch_size": 256}
    assert adapt(Trial(8, outcome, extra={**extra, "minibatch_size": 100}), {}) is None
    assert adapt(Trial(8, outcome, extra={**extra, "phase": "rollout"}), {}) is None
    assert adapt(Trial(8, outcome), {}) is None


def test_other_failures_are_cured_by_no_setting() -> None:
    extra = {"phase": "update", "minibatch_size": 512, "contacts": usage(60, 64)}
    assert adapt(Trial(8, Outcome.TIMEOUT, extra=extra), {}) is None


def test_changes_reach_settings_groups_and_fields_of_the_task() -> None:
    settings = compose(["task=lift"])
    changes = {"minibatch_size": 64, "physics.contacts": 80, "env.sim.physics.gpu_max_rigid_patch_count": 1500}
    result = changed(settings, changes)
    assert result.minibatch_size == 64
    assert result.physics.contacts == 80
    assert result.env_overrides == ["env.sim.physics.gpu_max_rigid_patch_count=1500"]
    assert settings == compose(["task=lift"]), "the settings themselves stay"
