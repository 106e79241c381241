# SPDX-License-Identifier: BSD-3-Clause
"""Interface of a learning library: an :class:`Adapter` that makes a :class:`Runner`.

Loads no torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from isaaclab_pc.learners.batch import BatchPlan
    from torch import Tensor, nn

__all__ = ["Adapter", "Decision", "OnIteration", "Runner", "TeacherPolicy", "policy_groups", "split_history"]


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


def policy_groups(obs: str) -> list[str]:
    """Return the observation groups that the policy reads in the environments of this package.

    Args:
        obs: What the policy sees besides the robot's own joints: ``points``, ``depth`` or ``state``.

    Returns:
        Names of the groups. For ``state``, the environment puts the objects' state into ``policy`` itself.
    """
    return ["policy"] if obs == "state" else ["policy", obs]


def split_history(shape: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Return how many frames an observation group holds, and the shape of one.

    Args:
        shape: That of one observation, without the batch dimension: a vector (P,), a cloud (K, C), a depth image
            (1, rows, columns), or several clouds or images, which have a dimension for time in front.

    Returns:
        1 and the shape, or the number of frames and the shape without it. Vectors of several frames are one vector.
    """
    is_one = len(shape) <= 2 or (len(shape) == 3 and shape[0] == 1)
    return (1, tuple(shape)) if is_one else (shape[0], tuple(shape[1:]))


class Runner(Protocol):
    """One learning library at work: its networks, its optimizer and its training loop."""

    completed_iterations: int
    """Iterations since the start of the run, those before a resume included."""

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
        ...

    def start_new_episodes(self) -> None:
        """Let all environments start the episodes that the training would have come to next.

        Those that are running are cut short, and do not count where the environment can leave them out of its metrics.
        """
        ...

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically.

        Args:
            path: Where the file goes.
            extra: What the header should say about the run, such as the task's id; JSON values.

        Raises:
            NonFiniteError: Weights, optimizer or normalizers are not finite; nothing was written.
        """
        ...

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore weights, optimizer, normalizers, learning rate, random generators and counters.

        Args:
            path: A checkpoint that :meth:`save` wrote.
            expected: What the header must say, besides the runner, the observations and the actions.

        Returns:
            The checkpoint's header, with the ``extra`` that it was saved with.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed.
        """
        ...

    def load_policy(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore what acts, and nothing that only training needs. Clouds may have another number of points.

        Args:
            path: A checkpoint that :meth:`save` wrote, or one without optimizer and random generators.
            expected: As for :meth:`load`.

        Returns:
            The checkpoint's header.

        Raises:
            ConfigError: It is no checkpoint, or one of another task, runner or observation; nothing was changed.
        """
        ...

    def policy(self) -> "nn.Module":
        """Return the deterministic policy as a module, on the networks that train.

        Its ``forward`` takes observation groups by name, each with batch size N on the device of the networks, reads
        those that it needs, and returns actions, shape (N, A): normalization, and whatever the library or its wrapper
        of the environment does to observations and to the actions of a deterministic policy, are inside. It takes any
        N and changes nothing, buffers included, with two exceptions. One with a memory changes that; this package's
        have :meth:`~isaaclab_pc.learners.common.policy_protocols.ActsFromState.act_from` besides. One of skrl's own draws from
        torch's generator, though it acts without what it drew.

        What TorchScript and ONNX cannot express, it may do where gradients are off: a submodule with a method
        ``dense()`` is replaced by what that returns before the policy is exported.
        """
        ...

    def act(self, obs: "Mapping[str, Tensor]") -> "Tensor":
        """Compute the actions of :meth:`policy`, without gradients.

        Args:
            obs: Observation groups by name, each with batch size N.

        Returns:
            Actions, shape (N, A).
        """
        ...

    def holders(self) -> Mapping[str, Any]:
        """Return the objects that hold the library's tensors, by what the memory is for.

        The keys are ``network weights``, ``optimizer`` and ``rollout storage`` or, of what is kept over iterations,
        ``replay``.
        :func:`isaaclab_pc.tensor_bytes.tensor_bytes` measures what an object holds.
        """
        ...


@runtime_checkable
class Adapter(Protocol):
    """One learning library, as the rest of the program sees it.

    To add a library: write ``isaaclab_pc/runners/<name>.py`` with an ``ADAPTER`` that keeps this protocol, add a line
    to :data:`isaaclab_pc.learners.RUNNERS`, and translate the hyperparameters in ``agents/<name>_cfg.py``.
    """

    name: str
    """The value of ``runner``; also the name of the adapter's module."""

    learning_rate_key: str
    """The setting that holds the learning rate, as a user writes it: ``agent.<field>``. For error messages."""

    def batch_target(self, agent_cfg: Any) -> tuple[int, int]:
        """Return the batch that the configuration asks for, whatever the number of environments.

        Args:
            agent_cfg: The library's configuration.

        Returns:
            Samples per update, and samples per minibatch.
        """
        ...

    def configure(
        self,
        agent_cfg: Any,
        *,
        obs: str | None,
        seed: int,
        max_iterations: int | None,
        device: str,
        plan: "BatchPlan | None",
        experiment: str,
        replay_samples: int | None = None,
        teacher: TeacherPolicy | None = None,
        init: Path | None = None,
    ) -> None:
        """Write a run's settings into the library's configuration.

        Args:
            agent_cfg: The configuration to change.
            obs: What the policy sees: ``points``, ``depth`` or ``state``. None keeps the configured groups, as tasks of
                other packages need.
            seed: Seed of the run.
            max_iterations: Iterations of the whole run; None keeps the configured ones.
            device: Where the networks live.
            plan: Horizon and minibatches; None keeps the configured ones.
            experiment: Name of the experiment.
            replay_samples: Samples that distillation keeps; None keeps the configured ones. PPO has none.
            teacher: The policy that distillation imitates; None: the task's expert.
            init: Checkpoint of the policy from which PPO goes on; None: it starts from nothing.
        """
        ...

    def replay_samples(self, agent_cfg: Any) -> int:
        """Return the samples that are kept over iterations; 0 where learning forgets them.

        Args:
            agent_cfg: The library's configuration.
        """
        ...

    def max_iterations(self, agent_cfg: Any) -> int:
        """Return the iterations of a whole run.

        Args:
            agent_cfg: The library's configuration.
        """
        ...

    def make(self, env: Any, agent_cfg: Any, run_dir: Path, device: str) -> Runner:
        """Build a runner around an environment.

        Args:
            env: The gym environment, or the library's own vectorized environment.
            agent_cfg: The library's configuration after :meth:`configure`; it is left as it is.
            run_dir: Where the library writes its logs.
            device: Where the networks live.

        Returns:
            The runner, its networks freshly initialized.
        """
        ...
