# SPDX-License-Identifier: BSD-3-Clause
"""Helpers that the adapters of all learning libraries share."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from isaaclab_pc.learners.common.policy_protocols import HasPolicy
from isaaclab_pc.tensors.distributed import world_rank

USUAL_NUM_ENVS = 4096
"""Number of environments that configurations of Isaac Lab's own tasks are written for."""


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


class SilentWriter:
    """Stands in for TensorBoard's writer in all but the first of several processes."""

    def add_scalar(self, *_: Any) -> None:
        """Write nothing."""


def log_writer(run_dir: Path) -> contextlib.AbstractContextManager[SummaryWriter | SilentWriter]:
    """Open TensorBoard's log in the first of several processes; the others write nothing."""
    return contextlib.nullcontext(SilentWriter()) if world_rank() > 0 else SummaryWriter(str(run_dir))


def random_first_lengths(env: Any) -> None:
    """Make the first episodes of an environment, or of a library's wrapper around it, end at different times."""
    base = getattr(env, "unwrapped", env)
    base.episode_length_buf = torch.randint_like(base.episode_length_buf, high=int(base.max_episode_length))


def clip_gradients(network: Any, parameters: Iterable[nn.Parameter], max_norm: float) -> None:
    """Clip the gradients of actor and critic apart where the network tells them apart, else those of all parameters.

    The critic's gradient is the larger one by far: clipped together, it would leave the actor next to nothing.
    """
    groups = network.clipping_groups() if isinstance(network, HasPolicy) else [parameters]
    for group in groups:
        nn.utils.clip_grad_norm_(group, max_norm)


@contextlib.contextmanager
def tensor_cores(*, allowed: bool = True) -> Iterator[None]:
    """Let a GPU round matrix products to TF32, for its tensor cores: around a learner's networks only.

    ``allowed=False`` belongs around an environment that a library steps within a rollout.
    """
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = before
