# SPDX-License-Identifier: BSD-3-Clause
"""Why a training process ended."""

import pytest

from isaaclab_pc.supervise.deaths import DeathCause, classify_death


@pytest.mark.parametrize(
    ("code", "output", "oom_kills", "cause"),
    [
        (137, "", 0, DeathCause.KILLED),
        (137, "", 1, DeathCause.OUT_OF_MEMORY),
        (139, "", 0, DeathCause.CRASHED),
        (134, "terminate called\nstd::bad_alloc", 0, DeathCause.OUT_OF_MEMORY),
        (1, "Traceback\nnumpy._core._exceptions._ArrayMemoryError: Unable to allocate", 0, DeathCause.OUT_OF_MEMORY),
        (1, "torch.AcceleratorError: CUDA error: unspecified launch failure", 0, DeathCause.DEVICE_LOST),
        (134, "VK_ERROR_DEVICE_LOST", 0, DeathCause.DEVICE_LOST),
        (1, "Traceback\nKeyError: 'cube'", 0, DeathCause.ERROR),
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
    assert death.cause is DeathCause.STORM


GLOO = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:35211: reset"


@pytest.mark.parametrize(
    "line",
    [
        GLOO,
        "ncclRemoteError: A call failed possibly due to a network error",
        "Watchdog caught collective operation timeout",
    ],
)
def test_a_lost_rank_of_another_node_is_known_by_the_log(line: str) -> None:
    output = f"Traceback (most recent call last):\n{line}\n"
    death = classify_death(1, output, "running", may_lose_ranks=True)
    assert death is not None
    assert (death.cause, death.detail) == (DeathCause.RANK_LOST, line)
    # On one node, the rank that ended first is known, and why.
    alone = classify_death(1, output, "running")
    assert alone is not None
    assert alone.cause is DeathCause.ERROR
