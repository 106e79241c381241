# SPDX-License-Identifier: BSD-3-Clause
"""Why a training process ended, and what follows from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.cluster.causes import Cause, Death, Restart, choose_restart, classify_death
from isaaclab_pc.settings import SuperviseSettings

DEFAULTS = SuperviseSettings()


@pytest.mark.parametrize(
    ("code", "output", "oom_kills", "cause"),
    [
        (137, "", 0, Cause.KILLED),
        (137, "", 1, Cause.OUT_OF_MEMORY),
        (139, "", 0, Cause.CRASHED),
        (134, "terminate called\nstd::bad_alloc", 0, Cause.OUT_OF_MEMORY),
        (1, "Traceback\nnumpy._core._exceptions._ArrayMemoryError: Unable to allocate", 0, Cause.OUT_OF_MEMORY),
        (1, "torch.AcceleratorError: CUDA error: unspecified launch failure", 0, Cause.DEVICE_LOST),
        (134, "VK_ERROR_DEVICE_LOST", 0, Cause.DEVICE_LOST),
        (1, "Traceback\nKeyError: 'cube'", 0, Cause.ERROR),
    ],
)
def test_the_cause_follows_from_code_output_and_the_kernels_count(code, output, oom_kills, cause):
    death = classify_death(code, output, "running", oom_kills)
    assert death is not None
    assert death.cause is cause


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "completed"), (0, "running"), (2, "running"), (5, "running"), (3, "failed"), (143, "interrupted")],
)
def test_what_ended_by_its_own_decision_did_not_die(code, status):
    assert classify_death(code, "", status) is None


def test_a_storm_is_known_by_the_record():
    death = classify_death(4, "", "storm")
    assert death is not None
    assert death.cause is Cause.STORM


@given(st.integers(2, 65_536), st.lists(st.integers(1, 65_536), max_size=8))
def test_fewer_environments_are_at_least_one_and_at_most_three_quarters(num_envs, fits):
    restart = choose_restart(Death(Cause.OUT_OF_MEMORY, ""), DEFAULTS, num_envs, fits)
    assert restart is not None
    fewer = restart.settings["num_envs"]
    assert 1 <= fewer <= 0.75 * num_envs
    assert fewer >= num_envs // 2


def test_a_single_environment_cannot_shrink():
    assert choose_restart(Death(Cause.OUT_OF_MEMORY, ""), DEFAULTS, 1) is None


def test_what_was_found_to_fit_is_preferred_to_half():
    restart = choose_restart(Death(Cause.OUT_OF_MEMORY, ""), DEFAULTS, 1000, [1000, 960, 640, 128])
    assert restart is not None
    assert restart.settings == {"num_envs": 640}


@pytest.mark.parametrize("harder", [None, {}])
def test_a_storm_without_harder_physics_ends_the_run(harder):
    allowed = SuperviseSettings(harden_physics=True)
    assert choose_restart(Death(Cause.STORM, ""), allowed, 8, harder_physics=harder) is None


GLOO = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:35211: reset"


@pytest.mark.parametrize(
    "line",
    [
        GLOO,
        "ncclRemoteError: A call failed possibly due to a network error",
        "Watchdog caught collective operation timeout",
    ],
)
def test_a_rank_of_another_node_that_is_lost_is_waited_for(line: str) -> None:
    output = f"Traceback (most recent call last):\n{line}\n"
    death = classify_death(1, output, "running", may_lose_ranks=True)
    assert death is not None
    assert (death.cause, death.detail) == (Cause.RANK_LOST, line)
    assert choose_restart(death, SuperviseSettings(), num_envs=64) == Restart("")
    # On one node, the rank that ended first is known, and why.
    alone = classify_death(1, output, "running")
    assert alone is not None
    assert alone.cause is Cause.ERROR
