# SPDX-License-Identifier: BSD-3-Clause
"""How a node that does not lead lends its GPUs to the run of the one that does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from isaaclab_pc.cluster.place import LEADER_RESTARTS_SECONDS, LEADER_SEARCHES_SECONDS, Place
from isaaclab_pc.cluster.ranks import UNANSWERED
from isaaclab_pc.cluster.restart_limit import RestartLimit
from isaaclab_pc.launch.child_process import ExitCode, SignalFlag, run_child, show_log
from isaaclab_pc.launch.run_folder import LOG_NAME, LOGS, make_folder
from isaaclab_pc.launch.worker import JOB_NAME
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

__all__ = ["lend_gpus"]

_PAUSE_SECONDS = 5.0
"""Time after which a node joins again [s]: the others take as long to notice that a rank has died."""


def lend_gpus(
    settings: RunSettings,
    place: Place,
    command: Callable[[Path, int], list[str]],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run this node's ranks until the first node's run is over.

    Where they end because another rank died, they wait for the first node to go on.

    Args:
        settings: The run's settings, as given to this node.
        place: This node, which does not lead.
        command: Makes the command line of the ranks of the file of their job and of the longest wait for the first
            node [s].
        clock: Tells the time [s].

    Returns:
        The exit code: 0 where the run came to its end; 128 + N where signal N stopped this node; 75 where the run was
        asked to stop and did not go on; 2 where this node's ranks were refused; 1 where the run failed, or the nodes do
        not meet.
    """
    folder = make_folder(LOGS / "nodes", f"node{place.rank}")
    current().say(f"node {place.rank} of {place.nodes}: waiting for the first one at {place.endpoint}; log: {folder}")

    limit = RestartLimit(clock)
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
            flag.wait(_PAUSE_SECONDS, clock)
            patience = LEADER_RESTARTS_SECONDS
            code_without_leader = ExitCode.PREEMPTED if code == ExitCode.PREEMPTED else ExitCode.FAILED
