# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's visualizers that show in a browser, listening where the user said and not on all networks."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from isaaclab_pc.process_tree import ProcessTree

__all__ = ["LIVE", "listening_on", "rerun_server"]

LIVE = ("viser", "rerun")
"""Visualizers that show tasks of this package with their clouds (:mod:`isaaclab_pc.workers.live_view`); other tasks are
left to Isaac Lab's own of the same names."""

_START_S = 60.0
"""Time that rerun's server has to start [s]."""


@contextmanager
def listening_on(host: str, sim_cfg: Any, names: Sequence[str]) -> Iterator[None]:
    """Have the visualizers in a browser listen on one address.

    Args:
        host: An address of this machine.
        sim_cfg: The ``SimulationCfg`` that the simulation will be built from, which is changed: its own configurations
            of these visualizers stay, but for the address.
        names: The visualizers that will be on.
    """
    own = sim_cfg.visualizer_cfgs or []
    by_type = {cfg.visualizer_type: cfg for cfg in (own if isinstance(own, list) else [own])}
    with contextlib.ExitStack() as stack:
        if "viser" in names:
            from isaaclab_visualizers.viser import ViserVisualizerCfg

            by_type.setdefault("viser", ViserVisualizerCfg()).bind_address = host
        if "rerun" in names:
            from isaaclab_visualizers.rerun import RerunVisualizerCfg

            cfg = by_type.setdefault("rerun", RerunVisualizerCfg())
            cfg.bind_address = host
            stack.enter_context(rerun_server(host, cfg.grpc_port, cfg.web_port))
        sim_cfg.visualizer_cfgs = list(by_type.values())
        yield


@contextmanager
def rerun_server(host: str, grpc_port: int, web_port: int) -> Iterator[str]:
    """Serve rerun's viewer: Isaac Lab sends to a server that it finds, and its own listens on all networks.

    Args:
        host: Address to listen on.
        grpc_port: Port to which frames are sent; who answers there already is used.
        web_port: Port of the page.

    Yields:
        Where frames are sent to, as rerun writes it.
    """
    # Where it would be reached: 0.0.0.0 is all addresses, this machine's own among them.
    address = ("127.0.0.1" if host == "0.0.0.0" else host, grpc_port)
    url = f"rerun+http://{address[0]}:{grpc_port}/proxy"
    if _answers(address):
        yield url
        return

    ports = ("--port", str(grpc_port), "--web-viewer-port", str(web_port))
    command = [sys.executable, "-P", "-m", "rerun", "--serve-web", "--bind", host, *ports]
    with ProcessTree(command, output=None, expendable=False) as server:
        end = time.monotonic() + _START_S
        while not _answers(address):
            code = server.wait(0.1)
            if code is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"rerun's server did not start on {host}, ports {grpc_port} and {web_port}: the log says why."
                )
        yield url


def _answers(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=1.0):
        return True
    return False
