# SPDX-License-Identifier: BSD-3-Clause
"""Starts the processes of a run that trains on several GPUs: ``python -m isaaclab_pc.cluster.ranks N COMMAND...``.

torch elastic, which torchrun is made of, starts them, tells each its rank, and ends all of them where one dies. What it
does not have is here: signals that let a run write its checkpoint, and the exit code of the process that died first.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Protocol

from isaaclab_pc.launch.child_process import STOP_SIGNALS
from isaaclab_pc.output_filter import share_inlet
from isaaclab_pc.process_tree import tied_to_this_process

__all__ = ["NUM_RANKS", "exit_code", "main", "ranks_command"]

NUM_RANKS = "ISAACLAB_PC_RANKS"
"""Environment variable that tells a worker how many ranks there are. WORLD_SIZE alone may be somebody else's."""

_FIRST_RANK = "0"


class _Failure(Protocol):
    exitcode: int
    timestamp: int


def ranks_command(size: int, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command once for each rank.

    Args:
        size: Number of ranks; a single one needs no launcher.
        command: What each runs.
    """
    if size == 1:
        return [*command]
    return [sys.executable, "-P", "-m", "isaaclab_pc.cluster.ranks", str(size), *command]


def main(argv: Sequence[str]) -> int:
    """Run a command once for each rank, to the end of all of them.

    Args:
        argv: The number of ranks, then the command.

    Returns:
        0, or the exit code of the rank that ended first with another one; 128 + N if a signal N killed it.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    size = int(argv[0])
    program, *arguments = tied_to_this_process(argv[1:], on_our_death=signal.SIGTERM)
    os.environ[NUM_RANKS] = str(size)
    # Otherwise each rank takes all cores, and they wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // size)))
    share_inlet()
    _pass_signals_on()

    with tempfile.TemporaryDirectory() as scratch:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=size,
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            # Whether a run goes on is its supervisor's decision.
            max_restarts=0,
            signals_to_handle="SIGQUIT",
        )
        try:
            elastic_launch(config, program)(*arguments)
        except ChildFailedError as error:
            return exit_code(error.failures)
    return 0


def exit_code(failures: Mapping[int, _Failure]) -> int:
    """Return the exit code of the rank that ended the others.

    The first failure is the cause; of several within a second a signal is, and errors of the others that lost it are
    its consequences. SIGTERM is what torch elastic ends the others with.

    Args:
        failures: By rank, those that ended with another exit code than 0; a negative one is a signal.
    """

    def order(failure: _Failure) -> tuple[bool, int, bool]:
        code = failure.exitcode
        return code == -signal.SIGTERM, failure.timestamp, code >= 0

    code = min(failures.values(), key=order).exitcode
    return 128 - code if code < 0 else code


def _pass_signals_on() -> None:
    """Pass signals on: those that stop a run to the first rank, which tells the others; SIGABRT to all."""

    def to_first(number: int, _frame: FrameType | None) -> None:
        _send(number, first_only=True)

    def to_all(number: int, _frame: FrameType | None) -> None:
        _send(number, first_only=False)

    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, to_first)
    # Each writes where it hangs.
    signal.signal(signal.SIGABRT, to_all)


def _send(number: int, first_only: bool) -> None:
    import psutil

    for child in psutil.Process().children():
        try:
            if not first_only or child.environ().get("RANK") == _FIRST_RANK:
                child.send_signal(number)
        except psutil.Error:
            # It ends just now.
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
