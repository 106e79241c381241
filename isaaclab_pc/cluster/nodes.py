# SPDX-License-Identifier: BSD-3-Clause
"""Nodes, the machines that train one run together: which of them this is, and how one runs that does not lead."""

import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag, run_child, show_log
from isaaclab_pc.run.folder import LOG_NAME, LOGS, make_folder
from isaaclab_pc.run.jobs import JOB_NAME
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.supervise.restarts import RestartLimit
from isaaclab_pc.terminal.screen import current

DEFAULT_PORT = 29400
"""Port of torchrun's rendezvous."""

_SLURM_PORTS = range(20_000, 30_000)
"""Ports of runs under SLURM: below Linux's ephemeral ports."""

LEADER_SEARCHES_SECONDS = 3600
"""Longest wait for the first node to begin [s]: it finds the number of environments before."""

NODES_JOIN_SECONDS = 1500
"""Longest wait of the first node for the others to begin [s]: less than ``watch.STARTUP_SECONDS``, after which its
supervisor would take it for hung."""

LEADER_RESTARTS_SECONDS = 300
"""Longest wait of a node for the others after a rank has died, or the run was stopped [s]."""

_PAUSE_SECONDS = 5.0
"""Time after which a node joins again [s]: the others take as long to notice that a rank has died."""

UNANSWERED = 69
"""Exit code of the launcher of ranks if its nodes do not meet; BSD's EX_UNAVAILABLE."""


@dataclass(frozen=True)
class Place:
    """Where this machine, a node, stands among those of a run."""

    nodes: int = 1
    """How many there are."""

    rank: int = 0
    """Which one this is; the first one, 0, leads."""

    endpoint: str = "localhost:0"
    """``host:port`` of the first one; port 0 is any that is free, for a single node."""

    run_id: str = "isaaclab_pc"
    """Id of the run at the rendezvous: nodes of another run that come to the same port find nobody."""

    @property
    def leads(self) -> bool:
        """Whether this node has the run's folder, its supervisor and its first rank."""
        return self.rank == 0


def find_place(settings: RunSettings) -> Place:
    """Find out which node this is, from the settings or from SLURM.

    Raises:
        ConfigError: It cannot be known, or the nodes do not fit SLURM's job.
    """
    if settings.nodes == 1:
        if settings.node_rank is not None:
            raise ConfigError(f"node_rank={settings.node_rank}: there is one node; give nodes=<number of nodes>.")
        return Place()

    there = os.environ.get("SLURM_NNODES")
    if there is not None and int(there) != settings.nodes:
        raise ConfigError(f"nodes={settings.nodes}: SLURM's job has {there}; give nodes={there}, or another --nodes.")
    rank = settings.node_rank
    if rank is None:
        given = os.environ.get("SLURM_NODEID")
        if given is None:
            raise ConfigError(
                f"nodes={settings.nodes}: which of them is this? Give node_rank=0 on the first one and node_rank=1 and "
                "so on on the others, or start the script on each with srun."
            )
        rank = int(given)
    if rank >= settings.nodes:
        raise ConfigError(
            f"node_rank={rank}: of nodes={settings.nodes}, the last one has node_rank={settings.nodes - 1}."
        )
    if settings.rendezvous is not None:
        has_port = re.search(r":\d+$", settings.rendezvous)
        return Place(settings.nodes, rank, settings.rendezvous + ("" if has_port else f":{DEFAULT_PORT}"))
    return _place_in_slurm(settings.nodes, rank)


def _place_in_slurm(nodes: int, rank: int) -> Place:
    """Return a node's place among those of SLURM's step, which meet at a port of their own."""
    host = _first_host()
    job = os.environ.get("SLURM_JOB_ID")
    if host is None or job is None:
        raise ConfigError(
            f"nodes={nodes}: where do they meet? Give rendezvous=<first node>:{DEFAULT_PORT} on each of them."
        )
    step = f"{job}.{os.environ.get('SLURM_STEP_ID', '0')}"
    port = _SLURM_PORTS[zlib.crc32(step.encode()) % len(_SLURM_PORTS)]
    return Place(nodes, rank, f"{host}:{port}", f"isaaclab_pc_{step}")


def _first_host() -> str | None:
    """Return the first node of SLURM's step; None outside of one."""
    # The step may have some of the job's nodes, and it is in these that SLURM counts.
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None or shutil.which("scontrol") is None:
        return None
    done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None


def run_follower_node(settings: RunSettings, place: Place, command: Callable[[Path, int], list[str]]) -> int:
    """Run this node's ranks until the first node's run is over; where another rank died, wait for it to go on.

    Args:
        settings: The run's settings, as given to this node.
        place: This node, which does not lead.
        command: Gives the ranks' command line for their job's file and the longest wait for the first node [s].

    Returns:
        0 where the run came to its end; 128 + N where signal N stopped this node; 75 where the run was asked to stop
        and did not go on; 2 where this node's ranks were refused; 1 where the run failed, or the nodes do not meet.
    """
    folder = make_folder(LOGS / "nodes", f"node{place.rank}")
    current().say(f"node {place.rank} of {place.nodes}: waiting for the first one at {place.endpoint}; log: {folder}")

    limit = RestartLimit(time.monotonic)
    patience = LEADER_SEARCHES_SECONDS
    code_without_leader = ExitCode.FAILED
    with SignalFlag() as flag:
        while True:
            code = run_child(command(folder / JOB_NAME, patience), log=folder / LOG_NAME, flag=flag)
            if flag.received:
                return flag.exit_code
            if code in (ExitCode.OK, ExitCode.REFUSED):
                return code
            if code == UNANSWERED:
                current().fail(
                    f"the nodes do not meet at {place.endpoint}: the first one did not answer within {patience} s, or "
                    f"gave up because another one is missing; see {folder / LOG_NAME}"
                )
                return code_without_leader

            if code != ExitCode.PREEMPTED and not limit.allow(settings.supervise.max_restarts):
                show_log(folder / LOG_NAME, code)
                return ExitCode.FAILED
            current().say(f"node {place.rank}: its ranks ended with exit code {code}; waiting for the first node")
            flag.wait(_PAUSE_SECONDS)
            patience = LEADER_RESTARTS_SECONDS
            code_without_leader = ExitCode.PREEMPTED if code == ExitCode.PREEMPTED else ExitCode.FAILED
