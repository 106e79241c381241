# SPDX-License-Identifier: BSD-3-Clause
"""What the adapters of the learning libraries have in common."""

import contextlib
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.runners.checkpoint_file import check_header, load_checkpoint, read_header
from isaaclab_pc.runners.interface import split_history

__all__ = [
    "USUAL_NUM_ENVS",
    "StopTraining",
    "checkpoint_identity",
    "no_output",
    "random_first_lengths",
    "read_policy",
    "read_training",
    "resume_training",
    "tensor_cores",
    "training_state",
]

USUAL_NUM_ENVS = 4096
"""Number of environments that configurations of Isaac Lab's own tasks are written for."""


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


def random_first_lengths(env: Any) -> None:
    """Let the first episodes of the environments end at different times.

    Args:
        env: A vectorized Isaac Lab environment, or a library's wrapper around one.
    """
    base = getattr(env, "unwrapped", env)
    base.episode_length_buf = torch.randint_like(base.episode_length_buf, high=int(base.max_episode_length))


def checkpoint_identity(runner: str, shapes: Mapping[str, Sequence[int]], num_actions: int) -> dict[str, Any]:
    """Return the part of a checkpoint's header that must be the same when it is loaded.

    Args:
        runner: Name of the adapter.
        shapes: Shape of one observation of each group that the networks read, without the batch dimension.
        num_actions: Size of an action.

    Returns:
        JSON values.
    """
    observations = {name: list(shape) for name, shape in sorted(shapes.items())}
    return {"runner": runner, "observations": observations, "num_actions": num_actions}


def read_training(
    path: Path,
    device: str,
    identity: Mapping[str, Any],
    expected: Mapping[str, Any] | None,
    keys: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a checkpoint that a training goes on from.

    Args:
        path: The checkpoint.
        device: Where the tensors go.
        identity: What :func:`checkpoint_identity` returned; the header must say the same.
        expected: What else the caller wants the header to say.
        keys: Entries that the state must have.

    Returns:
        The state and the header.

    Raises:
        ConfigError: It belongs to something else, is damaged, or is no checkpoint.
    """
    check_header(read_header(path), {**(expected or {}), **identity}, path)
    return load_checkpoint(path, device, keys)


def read_policy(
    path: Path, device: str, identity: Mapping[str, Any], expected: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a checkpoint for what acts, which may have been trained on clouds of another number of points.

    Args:
        path: As for :func:`read_training`.
        device: Likewise.
        identity: Likewise.
        expected: Likewise.

    Returns:
        The state, whose ``algorithm`` holds the weights, and the header.

    Raises:
        ConfigError: As for :func:`read_training`.
    """
    wanted = _without_num_points({**(expected or {}), **identity})
    check_header(_without_num_points(read_header(path)), wanted, path)
    return load_checkpoint(path, device, ("algorithm",))


def training_state(env: Any) -> dict[str, Any]:
    """Return what an environment knows of the training so far: tensors and plain values for a checkpoint.

    Args:
        env: A vectorized Isaac Lab environment, or a library's wrapper around one.
    """
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "training_state"):
        return base.training_state()
    # Curricula of Isaac Lab's managers read this.
    return {"steps": int(getattr(base, "common_step_counter", 0))}


def resume_training(env: Any, state: Mapping[str, Any]) -> None:
    """Let all environments start the episodes that a training would have come to next.

    Tasks of other packages draw them from the random generators, which must have been restored before.

    Args:
        env: As for :func:`training_state`.
        state: What that returned.
    """
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "resume_training"):
        base.resume_training(state)
    elif hasattr(base, "common_step_counter"):
        base.common_step_counter = operator.index(state["steps"])
        base.reset()


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


def _without_num_points(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header in which clouds have no number of points: a policy reads clouds of any size.

    Args:
        header: A checkpoint's header, or what :func:`checkpoint_identity` returns. Observations whose frames have two
            dimensions are clouds.
    """
    observations = header.get("observations")
    if not isinstance(observations, Mapping):
        return dict(header)
    shapes = {
        name: [*shape[:-2], "points", shape[-1]] if len(split_history(shape)[1]) == 2 else shape
        for name, shape in observations.items()
    }
    return {**header, "observations": shapes}
