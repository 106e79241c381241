# SPDX-License-Identifier: BSD-3-Clause
"""Starts the processes, ranks, of a run that trains on several GPUs: ``python -m isaaclab_pc.cluster.ranks --help``.

torch elastic, the core of torchrun, starts them, tells each its rank, and ends all of them where one dies. This module
adds signals that let a run write its checkpoint, and the exit code of the process that died first.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Protocol

from isaaclab_pc.cluster.nodes import LEADER_SEARCHES_SECONDS, UNANSWERED, Place
from isaaclab_pc.processes.child_process import STOP_SIGNALS, handle_signals
from isaaclab_pc.processes.death_signal import tied_to_this_process
from isaaclab_pc.processes.output_filter import share_inlet

NUM_RANKS = "ISAACLAB_PC_RANKS"
"""Environment variable that tells a worker how many ranks there are. WORLD_SIZE alone may be somebody else's."""

_ONLY_NODE = Place()


class _Failure(Protocol):
    @property
    def exitcode(self) -> int: ...
    @property
    def timestamp(self) -> int: ...


def ranks_command(
    gpus: int, command: Sequence[str], place: Place = _ONLY_NODE, patience: int = LEADER_SEARCHES_SECONDS
) -> list[str]:
    """Return the command line that runs a command once for each rank of this node, one for each GPU.

    A single rank needs no launcher. Several nodes wait for each other with ``patience`` [s].
    """
    if gpus * place.nodes == 1:
        return [*command]
    where = [f"--nodes={place.nodes}", f"--node-rank={place.rank}", f"--endpoint={place.endpoint}"]
    launcher = [sys.executable, "-P", "-m", "isaaclab_pc.cluster.ranks", f"--ranks={gpus}", *where]
    return [*launcher, f"--run-id={place.run_id}", f"--patience={patience}", "--", *command]


def main(argv: Sequence[str]) -> int:
    """Run a command once for each rank of this node, to the end of all of them.

    Returns:
        0, or that of :func:`exit_code`, or :data:`~isaaclab_pc.cluster.nodes.UNANSWERED`.
    """
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    args = _parser().parse_args(argv)
    program, *arguments = tied_to_this_process(args.command, on_our_death=signal.SIGTERM)
    os.environ[NUM_RANKS] = str(args.ranks * args.nodes)
    # Otherwise each rank takes all cores, and they wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // args.ranks)))
    share_inlet()
    handle_signals((*STOP_SIGNALS, signal.SIGABRT), _send)

    several = args.nodes > 1
    with tempfile.TemporaryDirectory() as scratch:
        config = LaunchConfig(
            min_nodes=args.nodes,
            max_nodes=args.nodes,
            nproc_per_node=args.ranks,
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
            run_id=args.run_id,
            # Only a static rendezvous has the first rank on the first node, where the run's supervisor is.
            rdzv_backend="static" if several else "c10d",
            rdzv_endpoint=args.endpoint,
            rdzv_configs={"timeout": args.patience, **({"rank": args.node_rank} if several else {})},
            # Whether a run goes on is its supervisor's decision.
            max_restarts=0,
            signals_to_handle="SIGQUIT",
        )
        try:
            elastic_launch(config, program)(*arguments)
        except ChildFailedError as error:
            return exit_code(error.failures)
        except DistError as error:
            print(_why_not_met(args, " ".join(str(error).split())), file=sys.stderr)
            return UNANSWERED
    return 0


def _why_not_met(args: argparse.Namespace, error: str) -> str:
    """Describe in one line why the nodes did not meet."""
    if "EADDRINUSE" in error:
        return (
            f"{args.endpoint} is in use, by another run or program: give rendezvous=<first node>:<another port> on "
            f"each node ({error})"
        )
    if args.node_rank == 0:
        return f"not all of the {args.nodes} nodes came to {args.endpoint} within {args.patience} s: {error}"
    return f"{args.endpoint} did not answer within {args.patience} s, or another node did not come there: {error}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m isaaclab_pc.cluster.ranks", description="Internal: scripts/train.py starts it."
    )
    parser.add_argument("--ranks", type=int, required=True, help="ranks of this node")
    parser.add_argument("--nodes", type=int, required=True, help="nodes of the run")
    parser.add_argument("--node-rank", type=int, required=True, help="which of them this is")
    parser.add_argument("--endpoint", required=True, help="host:port of the first one")
    parser.add_argument("--run-id", required=True, help="name of the run at the rendezvous")
    parser.add_argument("--patience", type=int, required=True, help="longest wait for the other nodes [s]")
    parser.add_argument("command", nargs="+", help="command line of each rank")
    return parser


def exit_code(failures: Mapping[int, _Failure]) -> int:
    """Return the exit code of the rank that ended the others, 128 + N for a signal N.

    The first failure is the cause. Of several within a second it is a signal: the other ranks then fail because they
    lost that one. torch elastic ends the others with SIGTERM.
    """

    def order(failure: _Failure) -> tuple[bool, int, bool]:
        code = failure.exitcode
        return code == -signal.SIGTERM, failure.timestamp, code >= 0

    code = min(failures.values(), key=order).exitcode
    return 128 - code if code < 0 else code


def _send(number: int, _frame: FrameType | None) -> None:
    """Send SIGABRT to all ranks, which write where they hang; stop signals to the first, which tells the others."""
    import psutil

    for child in psutil.Process().children():
        # A child that ends just now has no environment.
        with contextlib.suppress(psutil.Error):
            if number == signal.SIGABRT or child.environ().get("RANK") == "0":
                child.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
