# SPDX-License-Identifier: BSD-3-Clause
"""Interface of a learning library: an :class:`Adapter` that makes a :class:`Runner`. Loads no torch."""

import contextlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab_pc.agents.observation_groups import split_history
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.learners.common.checkpoint_file import (
    check_header,
    check_weights,
    load_checkpoint,
    read_header,
    rng_state,
    save_checkpoint,
    set_rng_state,
)

if TYPE_CHECKING:
    from torch import Tensor, nn


class Decision(Enum):
    """Whether a training continues after an iteration."""

    CONTINUE = "continue"
    STOP = "stop"


OnIteration = Callable[[int, Mapping[str, float]], Decision]
"""Called after every iteration with the number of completed iterations and the metrics.

Training is between two iterations then: the callback may call ``Runner.save``.
"""

AfterIteration = Callable[[Mapping[str, float]], bool]
"""Takes the metrics of an iteration, and returns whether the training ends with it."""


@dataclass(frozen=True)
class TeacherPolicy:
    """A trained policy that sees the simulator's state and teaches one that does not."""

    checkpoint: Path
    """Its weights."""

    agent_cfg: Any
    """The library's configuration that it was trained with."""


@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """Settings of a run that an adapter writes into its library's configuration; None keeps what is configured."""

    seed: int

    device: str
    """Device of the networks: ``cpu`` or ``cuda:N``."""

    obs: str | None
    """Policy observations besides the robot's own joints: ``points``, ``depth`` or ``state``. Tasks of other packages
    keep the configured groups."""

    max_iterations: int | None = None
    """Iterations of the whole run."""

    plan: BatchPlan | None = None
    """Horizon and minibatches."""

    replay_samples: int | None = None
    """Samples that distillation keeps."""

    teacher: TeacherPolicy | None = None
    """The policy that distillation imitates; None: the task's expert."""

    demos: Path | None = None
    """Demonstrations that distillation learns from alone; None: it asks the teacher."""

    init: Path | None = None
    """Checkpoint of the policy that PPO fine-tunes; None: PPO starts from nothing."""


class Adapter(ABC):
    """One learning library, as the rest of the program sees it.

    To add a library: write ``isaaclab_pc/learners/<name>/adapter.py`` with an ``ADAPTER`` of this class, translate the
    hyperparameters in ``cfg.py`` beside it, and add a line to :data:`isaaclab_pc.learners.RUNNERS`.
    """

    name: str
    """The value of ``runner``; also the name of the adapter's folder."""

    learning_rate_key: str
    """The setting that holds the learning rate, as a user writes it: ``agent.<field>``. For error messages."""

    make: "Callable[[Any, Any, Path, str], Runner]"
    """Make a runner of an environment, a configuration, the folder of the library's logs, and the networks' device.

    The networks are freshly initialized. The environment is the gym environment, or the library's own vectorized one.
    The library's configuration, after :meth:`configure`, is left as it is.
    """

    @abstractmethod
    def batch_target(self, agent_cfg: Any) -> tuple[int, int]:
        """Return the samples per update and per minibatch that a configuration asks for, whatever ``num_envs``.

        Raises:
            ConfigError: It asks for what the library cannot do here.
        """

    @abstractmethod
    def configure(self, agent_cfg: Any, options: LearnerOptions) -> None:
        """Write a run's settings into the library's configuration, in place."""

    @abstractmethod
    def max_iterations(self, agent_cfg: Any) -> int:
        """Return the iterations of a whole run."""

    def replay_samples(self, agent_cfg: Any) -> int:
        """Return the samples that are kept over iterations; 0 where learning forgets them, as PPO does."""
        return 0


class Runner(ABC):
    """Trains, acts, and writes and reads checkpoints; a subclass for each library does what is the library's own."""

    _env: Any
    """A vectorized Isaac Lab environment, or a library's wrapper around one."""

    _policy: "nn.Module"
    """The deterministic policy."""

    _memory: Any = None
    """The part of the policy that remembers, with ``reset(dones)``; None: it has no memory."""

    _identity: dict[str, Any]
    """Result of :func:`checkpoint_identity`."""

    def __init__(self, run_dir: Path, device: str) -> None:
        """Start before the first iteration."""
        self.completed_iterations = 0
        """Iterations since the start of the run, those before a resume included."""
        self._run_dir = run_dir
        self._device = device

    @abstractmethod
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        """Run at least one iteration, and call back after each until the callback returns True."""

    @abstractmethod
    def _library_state(self) -> dict[str, Any]:
        """Return the state to resume from; the entry ``algorithm`` holds the state dicts of the networks."""

    @abstractmethod
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        """Restore a result of :meth:`_library_state`; :attr:`completed_iterations` are restored already."""

    @abstractmethod
    def _acting_modules(self) -> "Mapping[str, nn.Module]":
        """Return the modules that act, by their names in ``algorithm``."""

    def _networks(self) -> "Mapping[str, Mapping[str, Tensor]]":
        """Return the state dicts of all networks, by their names in ``algorithm``."""
        return {name: module.state_dict() for name, module in self._acting_modules().items()}

    @abstractmethod
    def holders(self) -> Mapping[str, Any]:
        """Return the objects that hold the library's tensors, by the use of that memory.

        The keys are ``network weights``, ``optimizer`` and ``rollout storage`` or, of samples that are kept over
        iterations, ``replay``. :func:`isaaclab_pc.tensors.tensor_bytes.tensor_bytes` measures an object.
        """

    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train until the run has ``max_iterations`` iterations, those before a resume included, or is told to stop.

        It may be called again once all environments have started new episodes: others may have run in between.

        The metrics are those of :func:`~isaaclab_pc.learners.common.iteration_metrics.iteration_metrics`, and
        ``Learner/updates``, ``Learner/skipped_updates`` and, with several optimizers, ``Learner/stopped_optimizers``
        of :func:`~isaaclab_pc.learners.common.tripwire.end_iteration`.
        """

        def after_iteration(metrics: Mapping[str, float]) -> bool:
            self.completed_iterations += 1
            decision = on_iteration(self.completed_iterations, metrics)
            return decision is Decision.STOP or self.completed_iterations >= max_iterations

        if self.completed_iterations < max_iterations:
            self._train(max_iterations, after_iteration)

    def start_new_episodes(self) -> None:
        """Let all environments start the episodes that the training would have come to next.

        Running episodes are cut short, and do not count where the environment can leave them out of its metrics.
        """
        with training_set_aside(self._env):
            pass

    def policy(self) -> "nn.Module":
        """Return the deterministic policy as a module, on the networks that train.

        Its ``forward`` takes observation groups by name, each with batch size N on the device of the networks, and
        returns actions, shape (N, A), normalized, scaled and clipped as in training. It takes any N and changes
        nothing, buffers included, with two exceptions. A policy with a memory changes that; this package's keep
        :class:`~isaaclab_pc.learners.common.policy_protocols.ActsFromState` besides. One of skrl's own draws from
        torch's generator, though it acts without the draw.

        Where gradients are off, it may do what TorchScript and ONNX cannot express: export replaces a submodule that
        has a method ``dense()`` by the result of that method.
        """
        return self._policy

    def act(self, obs: "Mapping[str, Tensor]") -> "Tensor":
        """Compute the actions of :meth:`policy`, shape (N, A), without gradients, from observation groups by name."""
        import torch

        with torch.no_grad():
            if self._memory is not None:
                # An episode that a bad observation ended is reset before the next physics step only.
                base = _unwrapped(self._env)
                began = (base.episode_length_buf == 0) | base.reset_buf
                self._memory.reset(None if began.all() else began)
            return self.policy()({name: value.to(self._device) for name, value in obs.items()})

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically: networks, optimizer, random generators, counters and the iteration.

        ``extra`` are further entries of the header, such as the task's id, in JSON values.

        Raises:
            NonFiniteError: Weights, optimizer or normalizers are not finite; nothing was written.
        """
        state = {
            **self._library_state(),
            "rng": rng_state(self._device),
            "environment": _training_state(self._env),
            "iteration": self.completed_iterations,
        }
        header = {**extra, **self._identity, "iteration": self.completed_iterations}
        save_checkpoint(path, state, header)

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore what :meth:`save` wrote, and return the header, with the ``extra`` that it was saved with.

        ``expected`` are values that the header must have, besides the runner, the observations and the actions.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed. Or the
                library cannot take what it holds, and the runner must not be used.
        """
        check_header(read_header(path), {**(expected or {}), **self._identity}, path)
        state, header = load_checkpoint(path, self._device, (*self._library_state(), "rng", "environment", "iteration"))
        check_weights(path, self._networks(), state["algorithm"])

        # Everything was checked: from here on, the runner changes.
        try:
            self.completed_iterations = operator.index(state["iteration"])
            self._restore_library(state)
            set_rng_state(state["rng"], self._device)
            # The episodes that the training would have come to next, by the restored generators.
            base = _unwrapped(self._env)
            if hasattr(base, "resume_training"):
                base.resume_training(state["environment"])
            elif hasattr(base, "common_step_counter"):
                base.common_step_counter = operator.index(state["environment"]["steps"])
                base.reset()
        except ConfigError:
            raise
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ConfigError(
                f"checkpoint {path} holds what cannot be restored ({type(error).__name__}: {reason}): take another one"
            ) from error
        return header

    def load_policy(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore the networks that act, also from a checkpoint without optimizer; as for :meth:`load`.

        Clouds may have any number of points.
        """
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

    ``shapes`` are those of one observation of each group that the networks read, without the batch dimension.
    """
    observations = {name: list(shape) for name, shape in sorted(shapes.items())}
    return {"runner": runner, "observations": observations, "num_actions": num_actions}


@contextlib.contextmanager
def training_set_aside(env: Any) -> Iterator[None]:
    """Pause a training for other episodes, after which all environments start new ones.

    Episodes of the training are cut short, and do not count where the environment can leave them out of its metrics.
    ``env`` is a vectorized Isaac Lab environment, or a library's wrapper around one.
    """
    base = _unwrapped(env)
    if hasattr(base, "training_set_aside"):
        with base.training_set_aside():
            yield
    else:
        yield
        env.reset()
    # Isaac Lab keeps the log of the last reset until there is another one.
    base.extras.pop("log", None)


def _unwrapped(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def _training_state(env: Any) -> dict[str, Any]:
    """Return the environment's part of a checkpoint: tensors and plain values."""
    base = _unwrapped(env)
    if hasattr(base, "training_state"):
        return base.training_state()
    # Curricula of Isaac Lab's managers read this.
    return {"steps": int(getattr(base, "common_step_counter", 0))}


def _without_num_points(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header without the number of points of clouds, of which a frame has two dimensions."""
    observations = header.get("observations")
    if not isinstance(observations, Mapping):
        return dict(header)
    shapes = {
        name: [*shape[:-2], "points", shape[-1]] if len(split_history(shape)[1]) == 2 else shape
        for name, shape in observations.items()
    }
    return {**header, "observations": shapes}
