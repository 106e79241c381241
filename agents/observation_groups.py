# SPDX-License-Identifier: BSD-3-Clause
"""The observation groups that a policy reads. Loads no torch."""

from collections.abc import Sequence


def policy_groups(obs: str) -> list[str]:
    """Return the groups that the policy reads for ``obs``: ``points``, ``depth`` or ``state`` (within ``policy``)."""
    return ["policy"] if obs == "state" else ["policy", obs]


def split_history(shape: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Return the number of frames in an observation group, and the shape of one.

    ``shape`` has no batch dimension: a vector (P,), a cloud (K, C), a depth image (1, rows, columns), or several clouds
    or images, which have a dimension for time in front. Vectors of several frames are one vector.
    """
    is_one = len(shape) <= 2 or (len(shape) == 3 and shape[0] == 1)
    return (1, tuple(shape)) if is_one else (shape[0], tuple(shape[1:]))
