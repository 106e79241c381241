# SPDX-License-Identifier: BSD-3-Clause
"""What the adapters of the learning libraries have in common."""

import contextlib
import math
import operator
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import psutil
import torch
from torch import Tensor, nn

from isaaclab_pc.runners.interface import split_history

__all__ = [
    "USUAL_NUM_ENVS",
    "ActsFromState",
    "EnvClock",
    "EpisodeStats",
    "HasChunks",
    "HasClippingGroups",
    "HasPolicy",
    "IterationLog",
    "StopTraining",
    "checkpoint_identity",
    "iteration_metrics",
    "memory_in_use",
    "no_output",
    "random_first_lengths",
    "read_numbers",
    "resume_training",
    "speeds",
    "success_rate",
    "tensor_cores",
    "training_state",
    "without_num_points",
    "write_metrics",
]

USUAL_NUM_ENVS = 4096
"""Number of environments that configurations of Isaac Lab's own tasks are written for."""


class StopTraining(Exception):  # noqa: N818 - control flow, not an error
    """Leaves a library's training loop after the callback said stop."""


@runtime_checkable
class HasClippingGroups(Protocol):
    """A network that wants the gradients of its parts clipped apart."""

    def clipping_groups(self) -> Iterable[list[nn.Parameter]]:
        """Return the parameters in groups; the gradient of each is clipped by its own norm."""
        ...


@runtime_checkable
class HasPolicy(Protocol):
    """A network whose policy can be asked alone: without the critic, and without a change of its normalizers."""

    actor_groups: Iterable[str]
    """Observation groups that the policy reads."""

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the actions, shape (B, A), for these groups by name."""
        ...


@runtime_checkable
class HasChunks(Protocol):
    """Encoders of observations that pass a minibatch in parts."""

    def samples_at_once(self) -> int:
        """Return how many samples' activations are held at once; 0 where nothing is encoded."""
        ...


class HasMemory(Protocol):
    """A policy that acts on what it saw in the episode."""

    def reset(self, dones: Tensor | None = None) -> None:
        """Forget what was seen in these environments, shape (N,), bool; None: in all."""
        ...


@runtime_checkable
class ActsFromState(Protocol):
    """A policy with a memory that is given from outside, as programs without its library do.

    The memory is the hidden state and, of an LSTM, the cell state, each (M, B, H) with M layers.
    """

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        """Return the memory before the first step of an episode, for a number of environments B."""
        ...

    def act_from(self, obs: Mapping[str, Tensor], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return actions, shape (B, A), and the memory after the step, for groups by name and the memory before."""
        ...


def forget_past_episodes(policy: HasMemory, env: Any) -> None:
    """Let a policy forget what it saw, where an episode is about to begin.

    Args:
        policy: The policy.
        env: Its environment, which counts the steps of its episodes.
    """
    began = env.episode_length_buf == 0
    policy.reset(None if began.all() else began)


class EpisodeStats:
    """Returns and lengths of the last 100 episodes."""

    def __init__(self, num_envs: int, device: str | torch.device) -> None:
        """Start before the first episode.

        Args:
            num_envs: Environments, N.
            device: Where rewards come from.
        """
        # Row 0 sums the rewards, row 1 the steps.
        self._running = torch.zeros(2, num_envs, device=device)
        self._steps: list[tuple[Tensor, Tensor]] = []
        self._last: deque[tuple[float, float]] = deque(maxlen=100)

    def add(self, rewards: Tensor, ended: Tensor) -> None:
        """Add a step of all environments, without waiting for the device.

        Args:
            rewards: Shape (N,).
            ended: Whether the episode ended with this step, shape (N,), bool.
        """
        sums = self._running + torch.stack([rewards, torch.ones_like(rewards)])
        self._steps.append((sums, ended))
        self._running = sums.masked_fill(ended, 0.0)

    def forget_running(self) -> None:
        """Start new episodes: those that run were cut short."""
        self._running.zero_()

    def means(self) -> tuple[float, float]:
        """Return mean return and mean length [steps], NaN before the first episode ends; waits for the device."""
        sums = torch.stack([step for step, _ in self._steps])
        ended = torch.stack([flags for _, flags in self._steps])
        self._steps = []
        self._last.extend(map(tuple, sums.transpose(1, 2)[ended].tolist()))
        if not self._last:
            return math.nan, math.nan
        returns, lengths = zip(*self._last, strict=True)
        return sum(returns) / len(returns), sum(lengths) / len(lengths)


class IterationLog:
    """Averages what the environment logs during one iteration."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[dict[str, Any]] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep what one step logged.

        Args:
            entry: Numbers and tensors by name. It is copied, as the environment may use the same dict again.
        """
        self._entries.append(dict(entry))

    def take_means(self) -> dict[str, float]:
        """Return the mean of each value over the steps that logged a finite one, and start the next iteration.

        A value that was never finite is NaN. This waits for each device once.
        """
        logged = [item for entry in self._entries for item in entry.items()]
        self._entries = []

        numbers = read_numbers([value for _, value in logged])
        by_key: dict[str, list[float]] = {key: [] for key, _ in logged}
        for (key, _), number in zip(logged, numbers, strict=True):
            # A step in which no episode ended logs NaN for its success rate.
            if math.isfinite(number):
                by_key[key].append(number)
        return {key: sum(finite) / len(finite) if finite else math.nan for key, finite in by_key.items()}


def read_numbers(values: Sequence[Any]) -> list[float]:
    """Return numbers, and the means of tensors, which are read together: the host waits for each device once."""
    numbers = [math.nan if isinstance(value, Tensor) else float(value) for value in values]

    means: dict[torch.device, dict[int, Tensor]] = {}
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            # Most are numbers already.
            mean = value.float() if value.dim() == 0 else value.float().mean()
            means.setdefault(value.device, {})[index] = mean

    for of_device in means.values():
        for index, number in zip(of_device, torch.stack(list(of_device.values())).tolist(), strict=True):
            numbers[index] = number
    return numbers


def success_rate(env_log: Mapping[str, float]) -> float:
    """Return the success rate that the environment logged, NaN where there is none."""
    return env_log.get("Metrics/success_rate", math.nan)


class EnvClock(contextlib.ContextDecorator):
    """Sums up the time that is spent in an environment's steps, around a block or as a function's decorator.

    Nothing waits for a GPU here: work that the policy has queued there counts as the environment's, which waits for it.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        """Stop the clock."""
        self._seconds += time.perf_counter() - self._began

    def take(self) -> float:
        """Return the time of an iteration's steps [s], and begin the next iteration."""
        seconds = self._seconds
        self._seconds = 0.0
        return seconds


def speeds(env_steps: int, *, env_s: float, collect_s: float, learn_s: float) -> dict[str, float]:
    """Return the speeds of an iteration, each in steps of all environments per second.

    Args:
        env_steps: Steps of all environments in this iteration.
        env_s: Time of the environment's part of the rollout [s].
        collect_s: Time of the rollout [s].
        learn_s: Time of the update [s].

    Returns:
        ``Perf/env_fps`` of the environment alone, ``Perf/inference_fps`` with the policy's inference, and
        ``Perf/total_fps`` with the update, too.
    """
    return {
        "Perf/env_fps": env_steps / env_s,
        "Perf/inference_fps": env_steps / collect_s,
        "Perf/total_fps": env_steps / (collect_s + learn_s),
    }


def memory_in_use(device: str | torch.device) -> dict[str, float]:
    """Return the memory in use, as metrics of an iteration; on a GPU nothing waits for its work.

    Args:
        device: Where the networks live.

    Returns:
        ``Memory/host_bytes``, resident in this process and all that it started, and on a GPU ``Memory/device_bytes``,
        in use there by all processes [bytes].
    """
    process = psutil.Process()
    resident = 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            resident += each.memory_info().rss
    memory = {"Memory/host_bytes": resident}
    if torch.device(device).type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        memory["Memory/device_bytes"] = float(total - free)
    return memory


def iteration_metrics(
    env_log: Mapping[str, float],
    episodes: EpisodeStats,
    *,
    env_steps: int,
    env_s: float,
    collect_s: float,
    learn_s: float,
    of_update: Mapping[str, float],
    device: str | torch.device,
) -> dict[str, float]:
    """Return the metrics of an iteration under the names of :meth:`~isaaclab_pc.runners.interface.Runner.train`.

    Args:
        env_log: What environment and tripwire logged.
        episodes: The last episodes.
        env_steps: Steps of all environments in this iteration.
        env_s: Time of the environment's part of the rollout [s].
        collect_s: Time of the rollout [s].
        learn_s: Time of the update [s].
        of_update: ``learning_rate``, ``action_std`` and ``loss/*``.
        device: Where the networks live.
    """
    mean_reward, mean_episode_length = episodes.means()
    return {
        **env_log,
        "mean_reward": mean_reward,
        "mean_episode_length": mean_episode_length,
        "success_rate": success_rate(env_log),
        "collect_s": collect_s,
        "learn_s": learn_s,
        **speeds(env_steps, env_s=env_s, collect_s=collect_s, learn_s=learn_s),
        **memory_in_use(device),
        **of_update,
    }


_TAGS = {
    "learning_rate": "Loss/learning_rate",
    "action_std": "Policy/mean_std",
    "collect_s": "Perf/collection_time",
    "learn_s": "Perf/learning_time",
    "mean_reward": "Train/mean_reward",
    "mean_episode_length": "Train/mean_episode_length",
}
"""RSL-RL's tags in TensorBoard for our metrics."""


def write_metrics(writer: Any, metrics: Mapping[str, float], step: int) -> None:
    """Write an iteration to TensorBoard under the tags of RSL-RL, for the libraries that do not write them.

    Args:
        writer: TensorBoard's.
        metrics: What :func:`iteration_metrics` returned; values that are not finite are left out.
        step: Where on the axis: iterations or steps of all environments, as the library counts.
    """
    for tag, value in tagged_metrics(metrics).items():
        writer.add_scalar(tag, value, step)


def tagged_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return an iteration's metrics under the tags of RSL-RL; those that are not finite are left out.

    Args:
        metrics: What a runner reported.
    """
    tagged = {_TAGS.get(key, key.replace("loss/", "Loss/")): float(value) for key, value in metrics.items()}
    # The success rate is there already, as the environment logs it.
    return {tag: value for tag, value in tagged.items() if "/" in tag and math.isfinite(value)}


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


def without_num_points(header: Mapping[str, Any]) -> dict[str, Any]:
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
