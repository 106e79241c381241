# SPDX-License-Identifier: BSD-3-Clause
"""Several machines that train one run, nodes: which of them this is, from the settings or from SLURM."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings

__all__ = ["LEADER_SEARCHES_SECONDS", "Place", "find_place"]

DEFAULT_PORT = 29400
"""Port of torchrun's rendezvous."""

LEADER_SEARCHES_SECONDS = 3600
"""Longest wait for the first node to begin [s]: it finds the number of environments before."""


@dataclass(frozen=True)
class Place:
    """Where this machine, a node, stands among those of a run."""

    nodes: int = 1
    """How many there are."""

    rank: int = 0
    """Which one this is; the first one, 0, leads."""

    endpoint: str = "localhost:0"
    """``host:port`` of the first one; port 0 is any that is free, for a single node."""

    @property
    def leads(self) -> bool:
        """Whether this node has the run's folder, its supervisor and its first rank."""
        return self.rank == 0


def find_place(settings: RunSettings) -> Place:
    """Find out which node this is, from the settings or from SLURM.

    Args:
        settings: The run's settings; ``nodes``, ``node_rank`` and ``rendezvous`` matter.

    Returns:
        This node's place.

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
    return Place(settings.nodes, rank, _endpoint(settings))


def _endpoint(settings: RunSettings) -> str:
    """Return where the nodes meet, with its port."""
    host = settings.rendezvous or _first_host()
    if host is None:
        raise ConfigError(
            f"nodes={settings.nodes}: where do they meet? Give rendezvous=<first node>:{DEFAULT_PORT} on each of them."
        )
    return host if re.search(r":\d+$", host) else f"{host}:{DEFAULT_PORT}"


def _first_host() -> str | None:
    """Return the first node of SLURM's job; None outside of one."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None or shutil.which("scontrol") is None:
        return None
    done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None
