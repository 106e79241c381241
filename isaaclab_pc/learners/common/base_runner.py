# SPDX-License-Identifier: BSD-3-Clause
"""Base of all libraries' runners: it counts iterations, acts, and writes and reads checkpoints."""

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, override

import torch
from torch import Tensor, nn

from isaaclab_pc.agents.observation_groups import split_history
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
from isaaclab_pc.learners.common.interface import Decision, OnIteration, Runner
from isaaclab_pc.learners.common.policy_protocols import HasMemory, forget_past_episodes
from isaaclab_pc.learners.common.shared import training_set_aside

__all__ = ["AfterIteration", "BaseRunner", "checkpoint_identity"]

AfterIteration = Callable[[Mapping[str, float]], bool]
"""Takes the metrics of an iteration, and tells whether the training ends with it."""


class BaseRunner(Runner):
    """Everything of a :class:`~isaaclab_pc.learners.Runner` that no library does in its own way."""

    _env: Any
    """A vectorized Isaac Lab environment, or a library's wrapper around one."""

    _policy: nn.Module
    """The deterministic policy."""

    _memory: HasMemory | None = None
    """The part of the policy that remembers; None: it has no memory."""

    _identity: dict[str, Any]
    """Result of :func:`checkpoint_identity`."""

    def __init__(self, run_dir: Path, device: str) -> None:
        """Start before the first iteration."""
        self.completed_iterations = 0
        self._run_dir = run_dir
        self._device = device

    @abstractmethod
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        """Run at least one iteration, and call back after each until that tells to end."""

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
        """Return the modules that act, by their names in ``algorithm``."""

    @override
    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        def after_iteration(metrics: Mapping[str, float]) -> bool:
            self.completed_iterations += 1
            decision = on_iteration(self.completed_iterations, metrics)
            return decision is Decision.STOP or self.completed_iterations >= max_iterations

        if self.completed_iterations < max_iterations:
            self._train(max_iterations, after_iteration)

    @override
    def start_new_episodes(self) -> None:
        with training_set_aside(self._env):
            pass

    @override
    def policy(self) -> nn.Module:
        return self._policy

    @override
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            if self._memory is not None:
                forget_past_episodes(self._memory, self._env)
            return self.policy()({name: value.to(self._device) for name, value in obs.items()})

    @override
    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        state = {
            **self._library_state(),
            "rng": rng_state(self._device),
            "environment": _training_state(self._env),
            "iteration": self.completed_iterations,
        }
        header = {**extra, **self._identity, "iteration": self.completed_iterations}
        save_checkpoint(path, state, header)

    @override
    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
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

    @override
    def load_policy(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        wanted = _without_num_points({**(expected or {}), **self._identity})
        check_header(_without_num_points(read_header(path)), wanted, path)
        state, header = load_checkpoint(path, self._device, ("algorithm",))

        modules = self._acting_modules()
        check_weights(path, {name: module.state_dict() for name, module in modules.items()}, state["algorithm"])
        for name, module in modules.items():
            module.load_state_dict(state["algorithm"][name])
        return header


def checkpoint_identity(runner: str, shapes: Mapping[str, Sequence[int]], num_actions: int) -> dict[str, Any]:
    """Return the part of a checkpoint's header that must be the same when it is loaded, as JSON values.

    Args:
        runner: Name of the adapter.
        shapes: Shape of one observation of each group that the networks read, without the batch dimension.
        num_actions: Size of an action.
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
    """Return a header in which clouds, of which a frame has two dimensions, have no number of points."""
    observations = header.get("observations")
    if not isinstance(observations, Mapping):
        return dict(header)
    shapes = {
        name: [*shape[:-2], "points", shape[-1]] if len(split_history(shape)[1]) == 2 else shape
        for name, shape in observations.items()
    }
    return {**header, "observations": shapes}
