# SPDX-License-Identifier: BSD-3-Clause
"""Why a training process ended."""

import pytest

from isaaclab_pc.supervise.deaths import DeathCause, classify_death


@pytest.mark.parametrize(
    ("code", "output", "status", "oom_kills", "cause"),
    [
        (137, "", "running", 0, DeathCause.KILLED),
        (137, "", "running", 1, DeathCause.OUT_OF_MEMORY),
        (139, "", "running", 0, DeathCause.CRASHED),
        (134, "terminate called\nstd::bad_alloc", "running", 0, DeathCause.OUT_OF_MEMORY),
        (1, "Traceback\n_ArrayMemoryError: Unable to allocate", "running", 0, DeathCause.OUT_OF_MEMORY),
        (1, "AcceleratorError: CUDA error: unspecified launch failure", "running", 0, DeathCause.DEVICE_LOST),
        (134, "VK_ERROR_DEVICE_LOST", "running", 0, DeathCause.DEVICE_LOST),
        (1, "Traceback\nKeyError: 'cube'", "running", 0, DeathCause.ERROR),
        (4, "", "storm", 0, DeathCause.STORM),
        # It ended by its own decision.
        *((code, "", "running", 0, None) for code in (0, 2, 5)),
        (0, "", "completed", 0, None),
        (3, "", "failed", 0, None),
        (143, "", "interrupted", 0, None),
    ],
)
def test_the_cause_follows_from_code_output_status_and_the_kernels_count(code, output, status, oom_kills, cause):
    death = classify_death(code, output, status, oom_kills)
    assert (death and death.cause) == cause


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
