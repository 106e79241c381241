# SPDX-License-Identifier: BSD-3-Clause
"""The processes that train a run together, one for each GPU, and how the first one leads the others."""

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from isaaclab_pc.cluster.ranks import NUM_RANKS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision, Runner
from isaaclab_pc.processes.child_process import GRACE_SECONDS, ExitCode
from isaaclab_pc.settings import RunSettings

_LONGEST_WAIT = timedelta(hours=2)
"""Longest wait for the evaluation of the first rank, or for kernels that one compiles. Supervisors find hangs earlier.
"""

_SEED_STRIDE = 0x9E3779B1
"""Between the seeds of two ranks: far from those that people give."""

_SUMMED = frozenset({"Perf/env_fps", "Perf/inference_fps", "Perf/total_fps"})
_LARGEST = frozenset({"collect_s", "learn_s", "Memory/host_bytes", "Memory/device_bytes"})


class Order(Enum):
    """Order of the first rank to the others after an iteration."""

    GO_ON = "go on"
    PAUSE = "pause"
    """Leave the library's loop and wait: the first rank evaluates."""
    STOP = "stop"
    """The run was asked to stop, and can go on."""
    GIVE_UP = "give up"
    """Something is wrong with the run itself."""


class Ranks:
    """This process among those that train together; alone where there are no others."""

    def __init__(self) -> None:
        """Read the launcher's environment variables; nothing is connected yet."""
        self.size = int(os.environ.get(NUM_RANKS, "1"))
        names = ("RANK", "LOCAL_RANK", "GROUP_RANK")
        self.rank, self._local_rank, self._node_rank = (int(os.environ[n]) if self.size > 1 else 0 for n in names)
        self._messages: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this one decides, writes and evaluates."""
        return self.rank == 0

    def own_settings(self, settings: RunSettings) -> RunSettings:
        """Return the settings with this rank's GPU and its own seed: each draws other episodes and other noise."""
        # There may be fewer ranks than were asked for.
        there = {"gpus" if settings.cluster is None else "workers": self.size // settings.nodes}
        if self.size == 1:
            return settings.with_values(there)
        device = f"cuda:{self._local_rank}" if settings.device.startswith("cuda") else settings.device
        seed = (settings.seed + self.rank * _SEED_STRIDE) % 2**32
        # One viewer is enough.
        visualizer = settings.visualizer if self.is_first else None
        return settings.with_values({**there, "device": device, "seed": seed, "visualizer": visualizer})

    def exit_code_after(self, order: Order) -> int:
        """Return the exit code of a follower after the first rank's last order; ``GO_ON``: the run is over."""
        # On the first node 0, or the launcher there would end the first rank, which still closes.
        if self._node_rank == 0 or order is Order.GO_ON:
            return ExitCode.OK
        return ExitCode.PREEMPTED if order is Order.STOP else ExitCode.FAILED

    def connect(self) -> None:
        """Wait for the others, and make the process group that the learning libraries use."""
        if self.size == 1:
            return
        import torch
        import torch.distributed as dist

        threading.Thread(target=_end_after_launcher, args=(os.getppid(),), daemon=True).start()
        has_gpu = torch.cuda.is_available()
        if has_gpu:
            torch.cuda.set_device(self._local_rank % torch.cuda.device_count())
        # NCCL sends tensors of the GPU only.
        dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo", timeout=_LONGEST_WAIT)
        self._messages = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)

    def first_ranks_folder(self, path: Path) -> Path:
        """Return the first rank's path of a folder, once all ranks see it there.

        Raises:
            ConfigError: The node of a rank does not share the folder.
        """
        if self.size == 1:
            return path
        path = self.tell(path.absolute())
        is_there = self.gather((path.is_dir(), self._node_rank))
        blind = sorted({node for there, node in is_there if not there})
        if blind:
            raise ConfigError(
                f"{path} is not seen by node {', '.join(map(str, blind))}: start the script in a folder that "
                "all nodes share."
            )
        return path

    def disconnect(self) -> None:
        """Wait until all ranks have come here, and part: from here on, each ends by itself."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier(self._messages)
            dist.destroy_process_group()

    def gather(self, value: Any) -> list[Any]:
        """Send a value that can be pickled to the first rank, which gets all in their order; any other gets its own."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values = [None] * self.size if self.is_first else None
        dist.gather_object(value, values, group=self._messages)
        return [value] if values is None else values

    def tell[T](self, value: T) -> T:
        """Return the first rank's value, which can be pickled, on every rank."""
        if self.size == 1:
            return value
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._messages)
        return values[0]

    def draw_apart(self, seed: int, iteration: int) -> None:
        """Let the ranks draw different numbers again after a checkpoint, which holds the generators of one."""
        if not self.is_first:
            from isaaclab.utils.seed import configure_seed

            configure_seed((seed + iteration) % 2**32)


def _end_after_launcher(launcher: int) -> None:
    """End this process some time after its launcher: NCCL may wait for ever for ranks that are gone."""
    while os.getppid() == launcher:
        time.sleep(1.0)
    time.sleep(GRACE_SECONDS)
    os._exit(ExitCode.FAILED)


def follow(ranks: Ranks, runner: Runner, max_iterations: int, guard_counts: Callable[[], Mapping[str, int]]) -> Order:
    """Train by the orders of the first rank, and leave decisions, files and evaluations to it.

    ``guard_counts`` returns how many of this rank's environments the guard has ended, by cause. Returns the first
    rank's last order; ``GO_ON`` where the run came to its end.
    """
    order = Order.PAUSE

    def on_iteration(_completed: int, metrics: Mapping[str, float]) -> Decision:
        nonlocal order
        ranks.gather((dict(metrics), guard_counts()))
        order = ranks.tell(Order.GO_ON)
        return Decision.CONTINUE if order is Order.GO_ON else Decision.STOP

    while order is Order.PAUSE:
        order = ranks.tell(Order.GO_ON)
        if order is Order.GO_ON:
            runner.train(max_iterations, on_iteration)
        if order is Order.PAUSE:
            # As the first rank's environments do after its evaluation.
            runner.start_new_episodes()
    return order


def combine_metrics(reports: list[Mapping[str, float]]) -> dict[str, float]:
    """Sum speeds, take the largest time and memory, and average the finite values of all other metrics."""
    combined = {}
    for name in reports[0]:
        values = [report[name] for report in reports if name in report]
        finite = [value for value in values if math.isfinite(value)]
        if name in _SUMMED:
            combined[name] = sum(values)
        elif name in _LARGEST:
            combined[name] = max(values)
        else:
            combined[name] = sum(finite) / len(finite) if finite else values[0]
    return combined
