# SPDX-License-Identifier: BSD-3-Clause
"""Ray Train starts the ranks of a run in a Ray cluster: ``python -m isaaclab_pc.cluster.ray_train --help``.

Ray places them, tells each its rank, notices a worker or a machine that is lost, and ends the others. Whether and how
the run goes on is its supervisor's decision, as without Ray.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from isaaclab_pc.cluster.ranks import exit_code
from isaaclab_pc.cluster.ray_cluster import ray_cluster
from isaaclab_pc.cluster.ray_rank import Failure, Mailbox, run_rank
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import STOP_SIGNALS, ExitCode, SignalFlag
from isaaclab_pc.processes.output_filter import share_inlet
from isaaclab_pc.supervise.deaths import LOST_WORKER

if TYPE_CHECKING:
    from ray.train.torch import TorchTrainer

_LOOK_SECONDS = 0.2
_RETURN_SECONDS = 60.0
"""How long a run that goes on waits for machines that are missing [s]."""

_START_SECONDS = 600
"""Longest time until Ray's workers have begun [s]: on a busy disk, importing torch takes a while."""


def main(argv: Sequence[str]) -> int:
    """Run a command once for each rank, on the machines of a Ray cluster, to the end of all of them.

    Returns:
        0, or that of :func:`~isaaclab_pc.cluster.ranks.exit_code`; 1 where a Ray worker was lost with its process, 2
        where the cluster is too small for the run.
    """
    args = _parser().parse_args(argv)
    share_inlet()
    address = os.environ.get("RAY_ADDRESS")
    _show(f"joining the Ray cluster at {address}\n" if address else "starting Ray on this machine\n")
    environment = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_START_SECONDS)}
    try:
        with ray_cluster(address, environment=environment):
            workers = _wait_for_room(args.workers, args.at_least, use_gpu=args.gpu)
            return _train(args, workers)
    except ConfigError as error:
        _show(f"error: {error}\n")
        return ExitCode.REFUSED
    except RayError as error:
        return _lost(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m isaaclab_pc.cluster.ray_train", description="Internal: scripts/train.py starts it."
    )
    parser.add_argument("--workers", type=int, required=True, help="ranks of the run")
    parser.add_argument("--at-least", type=int, required=True, help="ranks that it begins with at least")
    parser.add_argument("--gpu", action="store_true", help="each has a GPU")
    parser.add_argument("--log", type=Path, required=True, help="the run's log, in a folder that all nodes share")
    parser.add_argument("program", nargs="+", help="Python's arguments for each rank")
    return parser


def _wait_for_room(workers: int, at_least: int, *, use_gpu: bool) -> int:
    """Return the number of ranks that begin: all of them, or, after a minute, as many as there is room for."""
    give_up = time.monotonic() + (_RETURN_SECONDS if at_least < workers else 0.0)
    while (room := _room(use_gpu=use_gpu)) < workers and time.monotonic() < give_up:
        time.sleep(1.0)

    each = "a core and a GPU" if use_gpu else "a core"
    if room < at_least:
        raise ConfigError(f"workers={workers}: the Ray cluster has room for {room}; each needs {each}.")
    if room < workers:
        _show(f"going on with {room} of {workers} workers: the Ray cluster has room for no more\n")
    free = ray.available_resources().get("GPU" if use_gpu else "CPU", 0.0)
    if free < min(room, workers):
        _show("waiting: others use the Ray cluster\n")
    return min(room, workers)


def _room(*, use_gpu: bool) -> int:
    """Return the number of ranks that the cluster has room for, whoever uses it now."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    kinds = ("CPU", "GPU") if use_gpu else ("CPU",)
    return sum(min(int(machine.get(kind, 0)) for kind in kinds) for machine in machines)


def _train(args: argparse.Namespace, workers: int) -> int:
    """Let Ray run the ranks, and carry messages meanwhile."""
    from ray.train.torch import TorchConfig, TorchTrainer

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    mailbox: Any = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
    errors: list[Exception] = []
    # Ray has set handlers of its own before.
    with SignalFlag((*STOP_SIGNALS, signal.SIGABRT)) as flag, tempfile.TemporaryDirectory() as scratch:
        trainer = TorchTrainer(
            run_rank,
            train_loop_config={
                "program": args.program,
                "cwd": str(Path.cwd()),
                "log": str(args.log.resolve()),
                "mailbox": mailbox,
            },
            # Ray's own process group carries nothing: the ranks make theirs.
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=args.gpu,
                resources_per_worker={"CPU": 1, **({"GPU": 1} if args.gpu else {})},
            ),
            # Checkpoints are the run's own, and the supervisor alone starts it again.
            run_config=RunConfig(storage_path=scratch, failure_config=FailureConfig(max_failures=0)),
        )
        thread = threading.Thread(target=lambda: _fit(trainer, errors), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            if flag.received and not ray.get(mailbox.has_begun.remote()):
                # It may wait for hours until it has its place in the cluster.
                return flag.exit_code
            _carry(mailbox, flag.received)
        failures = _carry(mailbox, flag.received)
    return _code(failures, errors)


def _fit(trainer: TorchTrainer, errors: list[Exception]) -> None:
    # The error is told in one line instead.
    logging.getLogger("ray.train").setLevel(logging.CRITICAL)
    try:
        trainer.fit()
    except Exception as error:
        errors.append(error)


def _carry(mailbox: Any, received: list[int]) -> dict[int, Failure]:
    """Send signals to the ranks, show their output, and return their failures."""
    while received:
        ray.get(mailbox.send_signal.remote(received.pop(0)))
    text, failures = ray.get(mailbox.read.remote())
    _show(text)
    return failures


def _show(text: str) -> None:
    """Write to the user; the run goes on where the pipe or the window was closed."""
    with contextlib.suppress(OSError):
        # Through a buffer, Python would try again at its end, and change the exit code.
        os.write(sys.stdout.fileno(), text.encode())


def _code(failures: dict[int, Failure], errors: Sequence[Exception]) -> int:
    """Return the exit code, and log its reason where the ranks did not."""
    for failure in failures.values():
        if failure.refused:
            _show(f"error: {failure.refused}\n")
        if failure.out_of_memory:
            # With any other exit code, the supervisor would take it for a SIGKILL of somebody's.
            print(failure.out_of_memory, file=sys.stderr, flush=True)
            return ExitCode.FAILED
    if failures:
        return exit_code(failures)
    return _lost(errors[0]) if errors else ExitCode.OK


def _lost(error: Exception) -> int:
    print(f"{LOST_WORKER}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
