# SPDX-License-Identifier: BSD-3-Clause
"""Interface of a learning library: an :class:`Adapter` that makes a :class:`Runner`.

Loads no torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from isaaclab_pc.learners.common.batch import BatchPlan

__all__ = [
    "Adapter",
    "Decision",
    "LearnerOptions",
    "OnIteration",
    "Runner",
    "TeacherPolicy",
]


class Decision(Enum):
    """Whether to go on after an iteration."""

    CONTINUE = "continue"
    STOP = "stop"


OnIteration = Callable[[int, Mapping[str, float]], Decision]
"""Called after every iteration with the number of completed iterations and the metrics.

Training is between two iterations then: the callback may call ``Runner.save``.
"""


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
    """Seed of the run."""

    device: str
    """Device of the networks: ``cpu`` or ``cuda:N``."""

    experiment: str
    """Name of the experiment."""

    obs: str | None
    """Policy observations besides the robot's own joints: ``points``, ``depth`` or ``state``. Tasks of other packages
    keep the configured groups."""

    max_iterations: int | None = None
    """Iterations of the whole run."""

    plan: "BatchPlan | None" = None
    """Horizon and minibatches."""

    replay_samples: int | None = None
    """Samples that distillation keeps."""

    teacher: TeacherPolicy | None = None
    """The policy that distillation imitates; None: the task's expert."""

    init: Path | None = None
    """Checkpoint of the policy from which PPO goes on; None: it starts from nothing."""


class Runner(ABC):
    """One learning library at work: its networks, its optimizer and its training loop."""

    completed_iterations: int
    """Iterations since the start of the run, those before a resume included."""

    @abstractmethod
    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train until the run has ``max_iterations`` iterations or the callback says stop.

        It may be called again once all environments have started new episodes, and goes on with the observations that
        they have then: in between they may have run others.

        The metrics are:

        - ``mean_reward``: return of the last 100 episodes, NaN before the first one ends,
        - ``mean_episode_length`` [steps],
        - ``success_rate``: NaN where the environment logged none,
        - ``collect_s`` and ``learn_s``: time of the rollout and of the update [s],
        - ``Perf/env_fps``, ``Perf/inference_fps`` and ``Perf/total_fps``: steps of all environments per second of the
          environment alone, with the policy's inference, and with the update, too [1/s],
        - ``Memory/host_bytes``, of this process and all that it started, and on a GPU ``Memory/device_bytes``, of all
          processes there [bytes],
        - ``learning_rate``, ``action_std`` and ``loss/*``,
        - ``Learner/updates``, ``Learner/skipped_updates`` and, with several optimizers, ``Learner/stopped_optimizers``:
          see :func:`~isaaclab_pc.learners.common.tripwire.end_iteration`,
        - whatever the environment logged, under its own names.

        Args:
            max_iterations: Iterations of the whole run, those before a resume included.
            on_iteration: Called after each iteration.
        """

    @abstractmethod
    def start_new_episodes(self) -> None:
        """Let all environments start the episodes that the training would have come to next.

        Those that are running are cut short, and do not count where the environment can leave them out of its metrics.
        """

    @abstractmethod
    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically: networks, optimizer, random generators, counters and the iteration.

        Args:
            path: Path of the file.
            extra: What the header should say about the run, such as the task's id; JSON values.

        Raises:
            NonFiniteError: Weights, optimizer or normalizers are not finite; nothing was written.
        """

    @abstractmethod
    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore weights, optimizer, normalizers, learning rate, random generators and counters.

        Args:
            path: A checkpoint that :meth:`save` wrote.
            expected: Values that the header must have, besides the runner, the observations and the actions.

        Returns:
            The checkpoint's header, with the ``extra`` that it was saved with.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed.
        """

    @abstractmethod
    def load_policy(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore the networks that act, and nothing that only training needs. Clouds may have any number of points.

        Args:
            path: A checkpoint that :meth:`save` wrote, or one without optimizer and random generators.
            expected: As for :meth:`load`.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed.
        """

    @abstractmethod
    def policy(self) -> "nn.Module":
        """Return the deterministic policy as a module, on the networks that train.

        Its ``forward`` takes observation groups by name, each with batch size N on the device of the networks, and
        returns actions, shape (N, A): normalization, and whatever the library or its wrapper of the environment does
        to observations and to the actions of a deterministic policy, are inside. It takes any N and changes nothing,
        buffers included, with two exceptions. A policy with a memory changes that; this package's keep
        :class:`~isaaclab_pc.learners.common.policy_protocols.ActsFromState` besides. One of skrl's own draws from
        torch's generator, though it acts without what it drew.

        Where gradients are off, it may do what TorchScript and ONNX cannot express: a submodule with a method
        ``dense()`` is replaced by what that returns before the policy is exported.
        """

    @abstractmethod
    def act(self, obs: "Mapping[str, Tensor]") -> "Tensor":
        """Compute the actions of :meth:`policy`, shape (N, A), without gradients, of observation groups by name."""

    @abstractmethod
    def holders(self) -> Mapping[str, Any]:
        """Return the objects that hold the library's tensors, by what the memory is for.

        The keys are ``network weights``, ``optimizer`` and ``rollout storage`` or, of samples that are kept over
        iterations, ``replay``. :func:`isaaclab_pc.tensors.tensor_bytes.tensor_bytes` measures an object.
        """


class Adapter(ABC):
    """One learning library, as the rest of the program sees it.

    To add a library: write ``isaaclab_pc/learners/<name>/adapter.py`` with an ``ADAPTER`` of this class, translate the
    hyperparameters in ``cfg.py`` beside it, and add a line to :data:`isaaclab_pc.learners.RUNNERS`.
    """

    name: str
    """The value of ``runner``; also the name of the adapter's folder."""

    learning_rate_key: str
    """The setting that holds the learning rate, as a user writes it: ``agent.<field>``. For error messages."""

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

    @abstractmethod
    def make(self, env: Any, agent_cfg: Any, run_dir: Path, device: str) -> Runner:
        """Build a runner around an environment, its networks freshly initialized.

        Args:
            env: The gym environment, or the library's own vectorized environment.
            agent_cfg: The library's configuration after :meth:`configure`; it is left as it is.
            run_dir: Folder of the library's logs.
            device: Device of the networks.
        """
