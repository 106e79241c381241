# SPDX-License-Identifier: BSD-3-Clause
"""With which settings a size is tried again, and how they reach a run."""

import math
from dataclasses import replace

import pytest

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.physics import HEADROOM, ContactUsage
from isaaclab_pc.scaling import Outcome, Trial
from isaaclab_pc.scaling.auto_num_envs import apply_overrides, retry_overrides
from isaaclab_pc.scaling.trial import Phase, Progress


def usage(used: int, capacity: int, rows: int = 10, *, overflowed: bool = False) -> ContactUsage:
    return {
        "num_envs": 8,
        "contacts": {"used": used, "capacity": capacity, "overflowed": overflowed},
        "constraints": {"used": rows, "capacity": 100, "overflowed": False},
        "share": used / capacity,
    }


def room(used: float) -> int:
    """Room for so much, with headroom, as a multiple of 8."""
    return 8 * math.ceil(HEADROOM * used / 8)


def test_overflowed_contact_buffers_grow_and_earlier_overrides_stay() -> None:
    trial = Trial(8, Outcome.OVERFLOW, contacts=usage(100, 64, overflowed=True))
    assert retry_overrides(trial, {"minibatch_size": 64}) == {"minibatch_size": 64, "physics.contacts": room(100 / 8)}


def test_buffers_with_little_room_left_grow_too() -> None:
    assert retry_overrides(Trial(8, Outcome.FITS, contacts=usage(60, 64, rows=90)), {}) == {
        "physics.contacts": room(60 / 8),
        "physics.constraints": room(90),
    }
    assert retry_overrides(Trial(8, Outcome.FITS, contacts=usage(int(64 / HEADROOM), 64)), {}) is None


def test_physx_buffers_are_sized_by_what_physx_asked_for() -> None:
    buffers = {"gpu_max_rigid_patch_count": 1000, "gpu_heap_capacity": 0}
    trial = Trial(8, Outcome.OVERFLOW, physx_buffers=buffers)
    assert retry_overrides(trial, {}) == {"env.sim.physics.gpu_max_rigid_patch_count": HEADROOM * 1000}


@pytest.mark.parametrize("outcome", [Outcome.OOM, Outcome.OVER_BUDGET])
def test_an_update_that_does_not_fit_gets_smaller_minibatches(outcome: Outcome) -> None:
    assert retry_overrides(Trial(8, outcome, progress=Progress(Phase.UPDATE, 512)), {}) == {"minibatch_size": 256}
    assert retry_overrides(Trial(8, outcome, progress=Progress(Phase.UPDATE, 100)), {}) is None
    assert retry_overrides(Trial(8, outcome, progress=Progress(Phase.ROLLOUT, 512)), {}) is None
    assert retry_overrides(Trial(8, outcome), {}) is None


@pytest.mark.parametrize("outcome", [Outcome.OOM, Outcome.OVER_BUDGET])
def test_an_update_that_does_not_fit_gets_a_smaller_chunk_before_smaller_minibatches(outcome: Outcome) -> None:
    trial = Trial(8, outcome, progress=Progress(Phase.UPDATE, 4096, chunk=32_768))
    assert retry_overrides(trial, {}) == {"chunk": 512}, "no more than a minibatch is held at once"
    assert retry_overrides(trial, {"chunk": 512}) == {"chunk": 512, "minibatch_size": 2048}
    large_minibatch = replace(trial, progress=Progress(Phase.UPDATE, 24_576, chunk=2048))
    assert retry_overrides(large_minibatch, {"physics.contacts": 80}) == {"physics.contacts": 80, "chunk": 256}
    small = replace(trial, progress=Progress(Phase.UPDATE, 100, chunk=32_768))
    assert retry_overrides(small, {}) == {"chunk": 64}
    smallest = replace(trial, progress=Progress(Phase.UPDATE, 128, chunk=64))
    assert retry_overrides(smallest, {}) == {"minibatch_size": 64}
    assert retry_overrides(replace(trial, progress=Progress(Phase.ROLLOUT, 4096, chunk=32_768)), {}) is None


@pytest.mark.parametrize("phase", Phase)
def test_a_replay_is_halved_where_there_cannot_be_fewer_environments(phase: Phase) -> None:
    trial = Trial(32, Outcome.OVER_BUDGET, progress=Progress(phase, 100, replay_samples=80_000))
    assert retry_overrides(trial, {}, smallest=32) == {"replay_samples": 40_000}
    assert retry_overrides(trial, {}, smallest=16) is None
    small = replace(trial, progress=Progress(phase, 100, replay_samples=30_000))
    assert retry_overrides(small, {}, smallest=32) is None


def test_other_failures_are_cured_by_no_setting() -> None:
    trial = Trial(8, Outcome.TIMEOUT, contacts=usage(60, 64), progress=Progress(Phase.UPDATE, 512))
    assert retry_overrides(trial, {}) is None


def test_overrides_reach_settings_groups_and_fields_of_the_task() -> None:
    settings = compose(["task=lift"])
    overrides = {
        "minibatch_size": 64,
        "chunk": 128,
        "physics.contacts": 80,
        "env.sim.physics.gpu_max_rigid_patch_count": 1500,
    }
    result = apply_overrides(settings, overrides)
    assert (result.minibatch_size, result.chunk) == (64, 128)
    assert result.physics.contacts == 80
    assert result.env_overrides == ["env.sim.physics.gpu_max_rigid_patch_count=1500"]
    assert settings == compose(["task=lift"]), "the settings themselves stay"
