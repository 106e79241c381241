# SPDX-License-Identifier: BSD-3-Clause
"""With which settings a size is tried again, and how they reach a run."""

import math
from dataclasses import replace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.num_envs.retry import apply_overrides, retry_overrides
from isaaclab_pc.num_envs.trial import Outcome, Progress, TrainingPhase, Trial
from isaaclab_pc.physics import HEADROOM, ContactUsage


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


UPDATE, ROLLOUT = TrainingPhase.UPDATE, TrainingPhase.ROLLOUT


@pytest.mark.parametrize("outcome", [Outcome.OOM, Outcome.OVER_BUDGET])
@pytest.mark.parametrize(
    ("progress", "given", "again"),
    [
        (Progress(UPDATE, 512), {}, {"minibatch_size": 256}),
        (Progress(UPDATE, 100), {}, None),
        (Progress(ROLLOUT, 512), {}, None),
        (None, {}, None),
        # No more than a minibatch is held at once.
        (Progress(UPDATE, 4096, chunk=32_768), {}, {"chunk": 512}),
        (Progress(UPDATE, 24_576, chunk=2048), {"physics.contacts": 80}, {"physics.contacts": 80, "chunk": 256}),
        (Progress(UPDATE, 100, chunk=32_768), {}, {"chunk": 64}),
        # The chunk was lowered already, or cannot be.
        (Progress(UPDATE, 4096, chunk=512), {"chunk": 512}, {"chunk": 512, "minibatch_size": 2048}),
        (Progress(UPDATE, 128, chunk=64), {}, {"minibatch_size": 64}),
        (Progress(ROLLOUT, 4096, chunk=32_768), {}, None),
    ],
)
def test_an_update_gets_a_smaller_chunk_and_then_minibatches(
    outcome: Outcome, progress: Progress | None, given: dict[str, int], again: dict[str, int] | None
) -> None:
    assert retry_overrides(Trial(8, outcome, progress=progress), given) == again


@pytest.mark.parametrize("phase", TrainingPhase)
def test_a_replay_is_halved_where_there_cannot_be_fewer_environments(phase: TrainingPhase) -> None:
    trial = Trial(32, Outcome.OVER_BUDGET, progress=Progress(phase, 100, replay_samples=80_000))
    assert retry_overrides(trial, {}, smallest=32) == {"replay_samples": 40_000}
    assert retry_overrides(trial, {}, smallest=16) is None
    small = replace(trial, progress=Progress(phase, 100, replay_samples=30_000))
    assert retry_overrides(small, {}, smallest=32) is None


def test_other_failures_are_cured_by_no_setting() -> None:
    trial = Trial(8, Outcome.TIMEOUT, contacts=usage(60, 64), progress=Progress(UPDATE, 512))
    assert retry_overrides(trial, {}) is None


def test_overrides_reach_settings_groups_and_fields_of_the_task() -> None:
    settings = compose(["task=lift"])
    patches = "env.sim.physics.gpu_max_rigid_patch_count"
    result = apply_overrides(settings, {"minibatch_size": 64, "chunk": 128, "physics.contacts": 80, patches: 1500})
    assert (result.minibatch_size, result.chunk, result.physics.contacts) == (64, 128, 80)
    assert result.env_overrides == [f"{patches}=1500"]
    assert settings == compose(["task=lift"]), "the settings themselves stay"
