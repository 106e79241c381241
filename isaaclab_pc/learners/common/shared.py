# SPDX-License-Identifier: BSD-3-Clause
"""Helpers that the adapters of all learning libraries share."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

__all__ = [
    "USUAL_NUM_ENVS",
    "SilentWriter",
    "StopTraining",
    "no_output",
    "random_first_lengths",
    "tensor_cores",
]

USUAL_NUM_ENVS = 4096
"""Number of environments that configurations of Isaac Lab's own tasks are written for."""


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


class SilentWriter:
    """Stands in for TensorBoard's writer in all but the first of several processes."""

    def add_scalar(self, *_: Any) -> None:
        """Write nothing."""


def random_first_lengths(env: Any) -> None:
    """Let the first episodes of the environments end at different times.

    Args:
        env: A vectorized Isaac Lab environment, or a library's wrapper around one.
    """
    base = getattr(env, "unwrapped", env)
    base.episode_length_buf = torch.randint_like(base.episode_length_buf, high=int(base.max_episode_length))


@contextlib.contextmanager
def tensor_cores(*, allowed: bool = True) -> Iterator[None]:
    """Let a GPU's matrix products be rounded to TF32, for its tensor cores: around a learner's networks only.

    Args:
        allowed: False: around an environment that a library steps within a rollout.
    """
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = before


@contextlib.contextmanager
def no_output() -> Iterator[None]:
    """Drop what a library prints: progress is shown by whoever asked for the training."""
    with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        yield
