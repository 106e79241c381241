# SPDX-License-Identifier: BSD-3-Clause
"""The metrics of an iteration, under the same names whatever the learning library."""

import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
import psutil
import torch
from torch import Tensor

_log = logging.getLogger(__name__)


class EpisodeStats:
    """Returns and lengths of the last 100 episodes."""

    def __init__(self, num_envs: int, device: str | torch.device) -> None:
        """Start before the first episode of N environments."""
        # Row 0 sums the rewards, row 1 the steps.
        self._running = torch.zeros(2, num_envs, device=device)
        self._steps: list[tuple[Tensor, Tensor]] = []
        self._last: deque[tuple[float, float]] = deque(maxlen=100)

    def add(self, rewards: Tensor, ended: Tensor) -> None:
        """Add a step: rewards (N,), and whether it ``ended`` an episode (N,), bool; nothing waits for the device."""
        sums = self._running + torch.stack([rewards, torch.ones_like(rewards)])
        self._steps.append((sums, ended))
        self._running = sums.masked_fill(ended, 0.0)

    def forget_running(self) -> None:
        """Start new episodes: those that run were cut short."""
        # Not in place: RSL-RL has summed in inference mode.
        self._running = torch.zeros_like(self._running)

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
        self._entries: list[Mapping[Any, Any]] = []
        self._warned: set[str] = set()

    def add_extras(self, extras: Mapping[str, Any]) -> None:
        """Keep what one step logged, from the extras that it returned."""
        for name in ("log", "episode"):
            if name in extras:
                entry = extras[name]
                # A copy: the environment may use the same dict again.
                self._entries.append(dict(entry) if isinstance(entry, Mapping) else {name: entry})

    def take_means(self) -> dict[str, float]:
        """Return the mean of each value over the steps that logged a finite one, and start the next iteration.

        A value that was never finite is NaN. An entry that is no number is left out, with a warning for each name. This
        waits for each device once.
        """
        logged = []
        for entry in self._entries:
            for key, value in entry.items():
                number = _as_number(value)
                if number is not None:
                    logged.append((str(key), number))
                elif str(key) not in self._warned:
                    self._warned.add(str(key))
                    kind = getattr(value, "dtype", type(value).__name__)
                    _log.warning("the task logs %s, which is %s and no number: it is left out", key, kind)
        self._entries = []

        numbers = read_numbers([value for _, value in logged])
        by_key: dict[str, list[float]] = {key: [] for key, _ in logged}
        for (key, _), number in zip(logged, numbers, strict=True):
            # A step in which no episode ended logs NaN for its success rate.
            if math.isfinite(number):
                by_key[key].append(number)
        return {key: sum(finite) / len(finite) if finite else math.nan for key, finite in by_key.items()}


def _as_number(value: Any) -> float | Tensor | None:
    """Return a number, or the mean of an array, list or tensor (as a tensor); None for anything else."""
    # Texts would be read as the numbers that they spell.
    if isinstance(value, (str, bytes, bytearray)):
        return None
    # An odd value, or an error in reading it, must not end the training.
    with contextlib.suppress(Exception):
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            value = torch.cat([torch.as_tensor(item).flatten() for item in value])
        if isinstance(value, Tensor):
            if value.is_complex() or value.is_meta:
                return None
            # Most are of shape () already.
            return value.detach().float() if value.dim() == 0 else value.detach().float().mean()
        if isinstance(value, SupportsFloat) and not isinstance(value, np.ndarray):
            return float(value)
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return float(array.mean()) if array.size else math.nan
    return None


def read_numbers(values: Sequence[float | Tensor]) -> list[float]:
    """Return numbers and the means of tensors, which are read together: the host waits for each device once."""
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


class EnvClock(contextlib.ContextDecorator):
    """Sums up the time of an environment's steps, as a context manager or decorator; nothing waits for a GPU.

    Work that the policy has queued there counts as the environment's, which waits for it.
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


def iteration_metrics(
    env_log: Mapping[str, float],
    mean_reward: float,
    mean_episode_length: float,
    *,
    env_steps: int,
    env_s: float,
    collect_s: float,
    learn_s: float,
    of_update: Mapping[str, float],
    device: str | torch.device,
) -> dict[str, float]:
    """Return the metrics of an iteration.

    - ``mean_reward``: return of the last 100 episodes, NaN before the first one ends,
    - ``mean_episode_length`` [steps],
    - ``success_rate``: NaN where the environment logged none,
    - ``collect_s`` and ``learn_s``: time of the rollout and of the update [s],
    - ``Perf/env_fps``, ``Perf/inference_fps`` and ``Perf/total_fps``: steps of all environments per second of the
      environment alone, with the policy's inference, and with the update, too [1/s],
    - ``Memory/host_bytes``, of this process and its children, and on a GPU ``Memory/device_bytes``, of all processes
      there [bytes],
    - ``learning_rate``, ``action_std`` and ``loss/*``: ``of_update``,
    - ``env_log``: the log of environment and tripwire, under its own names.

    ``env_steps`` are those of all environments, ``env_s`` is the environment's part of ``collect_s`` [s], and
    ``device`` that of the networks.
    """
    return {
        **env_log,
        "mean_reward": mean_reward,
        "mean_episode_length": mean_episode_length,
        "success_rate": env_log.get("Metrics/success_rate", math.nan),
        "collect_s": collect_s,
        "learn_s": learn_s,
        "Perf/env_fps": env_steps / env_s,
        "Perf/inference_fps": env_steps / collect_s,
        "Perf/total_fps": env_steps / (collect_s + learn_s),
        **_memory_in_use(device),
        **of_update,
    }


def _memory_in_use(device: str | torch.device) -> dict[str, float]:
    """Return ``Memory/*``; on a GPU nothing waits for its work."""
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
    """Write an iteration to TensorBoard under the tags of RSL-RL; ``step`` counts as the library does."""
    for tag, value in tagged_metrics(metrics).items():
        writer.add_scalar(tag, value, step)


def tagged_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return an iteration's finite metrics under the tags of RSL-RL."""
    tagged = {_TAGS.get(key, key.replace("loss/", "Loss/")): float(value) for key, value in metrics.items()}
    # The success rate is there already, as the environment logs it.
    return {tag: value for tag, value in tagged.items() if "/" in tag and math.isfinite(value)}
