# SPDX-License-Identifier: BSD-3-Clause
"""The observation groups that a policy reads. Loads no torch."""

from collections.abc import Sequence

__all__ = ["policy_groups", "split_history"]


def policy_groups(obs: str) -> list[str]:
    """Return the observation groups that the policy reads in the environments of this package.

    Args:
        obs: ``points``, ``depth`` or ``state``. For ``state``, the environment puts the objects' state into ``policy``
            itself.
    """
    return ["policy"] if obs == "state" else ["policy", obs]


def split_history(shape: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Return how many frames an observation group holds, and the shape of one.

    Args:
        shape: Shape of one observation, without the batch dimension: a vector (P,), a cloud (K, C), a depth image
            (1, rows, columns), or several clouds or images, which have a dimension for time in front.

    Returns:
        1 and the shape, or the number of frames and the shape without it. Vectors of several frames are one vector.
    """
    is_one = len(shape) <= 2 or (len(shape) == 3 and shape[0] == 1)
    return (1, tuple(shape)) if is_one else (shape[0], tuple(shape[1:]))
