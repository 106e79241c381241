# SPDX-License-Identifier: BSD-3-Clause
"""Worker of Ray Train: it runs the process of one rank, and passes messages on. Loads Ray, no torch."""

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.train import TrainContext, get_context
from ray.train.collective import broadcast_from_rank_zero

from isaaclab_pc.cluster.ranks import NUM_RANKS
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.processes.output_filter import INLETS, ChildLines, OutputFilter
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.supervise.oom_watch import OomWatch

_LOOK_SECONDS = 0.2


class Failure(NamedTuple):
    """How the process of a rank failed."""

    exitcode: int
    """Negative for a signal."""

    timestamp: int
    """Time [s since 1970]."""

    refused: str = ""
    """Reason of a refusal, for people."""

    out_of_memory: str = ""
    """Line about the kernel's out-of-memory killer, as the classifier of deaths knows it."""


class Mailbox:
    """An actor between the launcher and its ranks, which may be on other nodes."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._signals: list[int] = []
        self._text: list[str] = []
        self._failures: dict[int, Failure] = {}
        self._has_begun = False

    def send_signal(self, number: int) -> None:
        """Take a signal for the ranks."""
        self._signals.append(number)

    def signals(self, begin: int) -> list[int]:
        """Return the signals but for the first ``begin`` of them."""
        return self._signals[begin:]

    def write(self, text: str) -> None:
        """Take output of a rank for the user."""
        self._text.append(text)

    def report(self, rank: int, failure: Failure) -> None:
        """Take how a rank failed."""
        self._failures[rank] = failure

    def begin(self) -> None:
        """Note that a rank begins."""
        self._has_begun = True

    def has_begun(self) -> bool:
        """Tell whether a rank runs, or has run."""
        return self._has_begun

    def read(self) -> tuple[str, dict[int, Failure]]:
        """Return the output since the last call, and all failures by rank."""
        text = "".join(self._text)
        self._text.clear()
        return text, self._failures


def run_rank(config: Mapping[str, Any]) -> None:
    """Run the process of this rank to its end; raise where it failed, as the mailbox knows.

    ``config`` holds ``program`` (Python's arguments), ``cwd``, ``log`` (in the run's folder) and ``mailbox``.
    """
    context = get_context()
    failure = _run(context, config)
    if failure is not None:
        ray.get(config["mailbox"].report.remote(context.get_world_rank(), failure))
        raise RuntimeError(f"rank {context.get_world_rank()} ended with exit code {failure.exitcode}")


def _run(context: TrainContext, config: Mapping[str, Any]) -> Failure | None:
    host = ray.util.get_node_ip_address()
    log = Path(config["log"])
    if not log.parent.is_dir():
        refused = f"{log.parent} is not seen by {host}: start the script in a folder that all nodes share."
        return Failure(ExitCode.REFUSED, int(time.time()), refused=refused)

    is_first = context.get_world_rank() == 0
    endpoint = broadcast_from_rank_zero((host, _free_port()) if is_first else None)
    assert endpoint is not None
    ray.get(config["mailbox"].begin.remote())
    os.chdir(config["cwd"])
    oom = OomWatch(time.monotonic())

    def show(line: bytes) -> None:
        ray.get(config["mailbox"].write.remote(f"{line.decode(errors='replace')}\n"))

    with (
        ChildLines(show) as shown,
        OutputFilter(log) as output,
        # It gets SIGTERM if this worker is killed.
        ProcessTree(
            [sys.executable, *config["program"]],
            shown.inlets[0],
            {**os.environ, **_variables(context, *endpoint), INLETS: ",".join(map(str, output.inlets))},
            pass_fds=output.inlets,
            on_our_death=signal.SIGTERM,
            expendable=False,
        ) as process,
    ):
        code = _wait(process, config["mailbox"], is_first, oom)

    # The first rank tells the others to stop. They exit with PREEMPTED; the exit code of the run is the first one's.
    if code in (ExitCode.OK, ExitCode.PREEMPTED):
        return None
    is_oom = oom.look(time.monotonic()) > 0
    out_of_memory = f"OOM Killed: rank {context.get_world_rank()} on {host}" if is_oom else ""
    return Failure(code, int(time.time()), out_of_memory=out_of_memory)


def _variables(context: TrainContext, host: str, port: int) -> dict[str, str]:
    """Return torchrun's environment variables of this rank."""
    local_size = context.get_local_world_size()
    return {
        NUM_RANKS: str(context.get_world_size()),
        "WORLD_SIZE": str(context.get_world_size()),
        "RANK": str(context.get_world_rank()),
        "LOCAL_WORLD_SIZE": str(local_size),
        "LOCAL_RANK": str(context.get_local_rank()),
        "GROUP_RANK": str(context.get_node_rank()),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // local_size)),
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]


def _wait(process: ProcessTree, mailbox: Any, is_first: bool, oom: OomWatch) -> int:
    """Wait for the process, and pass on the signals that are meant for it."""
    sent = 0
    code = None
    while code is None:
        code = process.wait(_LOOK_SECONDS)
        oom.look(time.monotonic())
        for number in ray.get(mailbox.signals.remote(sent)):
            sent += 1
            # The first one tells the others to stop; where it hangs, each one writes for itself.
            if is_first or number == signal.SIGABRT:
                process.send_signal(number)
    return code
