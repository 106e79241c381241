# SPDX-License-Identifier: BSD-3-Clause
"""How a training is interrupted, saved and gone on with, whatever the learning library."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from isaaclab_pc.learners.common.checkpoint_file import (
    check_header,
    check_weights,
    load_checkpoint,
    read_header,
    restoring,
    rng_state,
    save_checkpoint,
    set_rng_state,
)
from isaaclab_pc.learners.common.interface import split_history

__all__ = ["CheckpointedRunner", "checkpoint_identity"]


class CheckpointedRunner(ABC):
    """Base of the libraries' runners: checkpoint files, and the end of running episodes.

    A checkpoint holds the library's state, the random generators, the environment's counters and the iteration.
    """

    completed_iterations: int
    """See :class:`~isaaclab_pc.learners.common.interface.Runner`."""

    _env: Any
    """A vectorized Isaac Lab environment, or a library's wrapper around one."""

    _device: str
    """Where the networks live."""

    _identity: dict[str, Any]
    """Result of :func:`checkpoint_identity`."""

    @abstractmethod
    def _library_state(self) -> dict[str, Any]:
        """Return what the library goes on from; the entry ``algorithm`` holds the state dicts of its networks."""

    @abstractmethod
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`_library_state` returned; :attr:`completed_iterations` are restored already."""

    @abstractmethod
    def _networks(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Return the state dicts of all networks, by their names in ``algorithm``."""

    @abstractmethod
    def _acting_modules(self) -> Mapping[str, nn.Module]:
        """Return what acts, by its names in ``algorithm``."""

    def start_new_episodes(self) -> None:
        """Cut episodes short; see :meth:`~isaaclab_pc.learners.common.interface.Runner.start_new_episodes`."""
        base = getattr(self._env, "unwrapped", self._env)
        if hasattr(base, "training_set_aside"):
            with base.training_set_aside():
                pass
        else:
            self._env.reset()
        # Isaac Lab keeps what the last reset logged until there is another one.
        base.extras.pop("log", None)

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint; see :meth:`~isaaclab_pc.learners.common.interface.Runner.save`."""
        state = {
            **self._library_state(),
            "rng": rng_state(self._device),
            "environment": _training_state(self._env),
            "iteration": self.completed_iterations,
        }
        header = {**extra, **self._identity, "iteration": self.completed_iterations}
        save_checkpoint(path, state, header)

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore a checkpoint; see :meth:`~isaaclab_pc.learners.common.interface.Runner.load`."""
        check_header(read_header(path), {**(expected or {}), **self._identity}, path)
        state, header = load_checkpoint(path, self._device, (*self._library_state(), "rng", "environment", "iteration"))
        check_weights(path, self._networks(), state["algorithm"])

        # Everything was checked: from here on, the runner changes.
        with restoring(path):
            self.completed_iterations = operator.index(state["iteration"])
            self._restore_library(state)
            set_rng_state(state["rng"], self._device)
            _resume_training(self._env, state["environment"])
        return header

    def load_policy(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore what acts; see :meth:`~isaaclab_pc.learners.common.interface.Runner.load_policy`."""
        wanted = _without_num_points({**(expected or {}), **self._identity})
        check_header(_without_num_points(read_header(path)), wanted, path)
        state, header = load_checkpoint(path, self._device, ("algorithm",))

        modules = self._acting_modules()
        check_weights(path, {name: module.state_dict() for name, module in modules.items()}, state["algorithm"])
        for name, module in modules.items():
            module.load_state_dict(state["algorithm"][name])
        return header


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


def _training_state(env: Any) -> dict[str, Any]:
    """Return what an environment knows of the training so far: tensors and plain values for a checkpoint."""
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "training_state"):
        return base.training_state()
    # Curricula of Isaac Lab's managers read this.
    return {"steps": int(getattr(base, "common_step_counter", 0))}


def _resume_training(env: Any, state: Mapping[str, Any]) -> None:
    """Let all environments start the episodes that a training would have come to next.

    Tasks of other packages draw them from the random generators, which must have been restored before.
    """
    base = getattr(env, "unwrapped", env)
    if hasattr(base, "resume_training"):
        base.resume_training(state)
    elif hasattr(base, "common_step_counter"):
        base.common_step_counter = operator.index(state["steps"])
        base.reset()


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
