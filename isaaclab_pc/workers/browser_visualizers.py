# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's visualizers that show in a browser, listening where the user said and not on all networks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from isaaclab_pc.process_tree import ProcessTree
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.web_address import free_port, host_name

__all__ = ["LIVE", "RerunServer", "listening_on", "rerun_program", "rerun_server"]

LIVE = ("viser", "rerun")
"""Visualizers that show tasks of this package with their clouds (:mod:`isaaclab_pc.workers.live_view`); other tasks are
left to Isaac Lab's own of the same names."""

_START_S = 60.0
"""Time that rerun's server has to start [s]."""


class RerunServer(NamedTuple):
    """A server of rerun's that runs."""

    address: str
    """Where frames are sent to, as rerun writes it."""

    page: str
    """Address for a browser to open."""

    grpc_port: int
    """Port to which frames are sent."""

    web_port: int
    """Port of the page."""


@contextmanager
def listening_on(host: str, sim_cfg: Any, names: Sequence[str]) -> Iterator[None]:
    """Have the visualizers in a browser listen on one address, each on a port that is free, and say where.

    Args:
        host: An address of this machine.
        sim_cfg: The ``SimulationCfg`` that the simulation will be built from, which is changed: its own configurations
            of these visualizers stay, but for the address and a port that is taken.
        names: The visualizers that will be on.

    Raises:
        ConfigError: There is no free port.
    """
    own = sim_cfg.visualizer_cfgs or []
    by_type = {cfg.visualizer_type: cfg for cfg in (own if isinstance(own, list) else [own])}
    with contextlib.ExitStack() as stack:
        if "viser" in names:
            from isaaclab_visualizers.viser import ViserVisualizerCfg

            cfg = by_type.setdefault("viser", ViserVisualizerCfg())
            cfg.bind_address = host
            cfg.port = free_port(host, cfg.port)
            current().say(f"visualizer=viser: watch at http://{host_name(host)}:{cfg.port}")
        if "rerun" in names:
            from isaaclab_visualizers.rerun import RerunVisualizerCfg

            cfg = by_type.setdefault("rerun", RerunVisualizerCfg())
            cfg.bind_address = host
            # Isaac Lab sends to a server that it finds, and its own listens on all networks.
            server = stack.enter_context(rerun_server(host, cfg.grpc_port, cfg.web_port))
            cfg.grpc_port = server.grpc_port
            cfg.web_port = server.web_port
            current().say(f"visualizer=rerun: watch at {server.page}")
        sim_cfg.visualizer_cfgs = list(by_type.values())
        yield


@contextmanager
def rerun_server(host: str, grpc_port: int, web_port: int) -> Iterator[RerunServer]:
    """Serve rerun's viewer. What others serve is never used: they would get the frames.

    Args:
        host: Address to listen on.
        grpc_port: Port to which frames are sent; the next free one where it is taken, and that is said.
        web_port: Port of the page, likewise.

    Yields:
        The server, which ends with the block.

    Raises:
        ConfigError: There is no free port.
        RuntimeError: It does not start.
    """
    web_port = free_port(host, web_port)
    grpc_port = free_port(host, grpc_port)
    if grpc_port == web_port:
        grpc_port = free_port(host, grpc_port + 1)
    ports = ("--port", str(grpc_port), "--web-viewer-port", str(web_port))
    command = [rerun_program(), "--serve-web", "--bind", host, *ports]
    with ProcessTree(command, output=None, expendable=False) as server:
        end = time.monotonic() + _START_S
        # Ours, and no other program's that was quicker: rerun says nothing when its port is taken.
        while not _children_listen({grpc_port, web_port}):
            code = server.wait(0.1)
            if code is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"rerun's server did not start on {host}, ports {grpc_port} and {web_port}: the log says why, or "
                    "another program was quicker there."
                )

        # Where it is reached: 0.0.0.0 is all addresses, this machine's own among them.
        address = f"rerun+http://{'127.0.0.1' if host == '0.0.0.0' else host}:{grpc_port}/proxy"
        name = host_name(host)
        page = f"http://{name}:{web_port}/?url=rerun%2Bhttp://{name}:{grpc_port}/proxy"
        yield RerunServer(address, page, grpc_port, web_port)


def rerun_program() -> str:
    """Return the path of rerun's program. Python's ``-m rerun`` runs it as a child, which would outlive a kill."""
    package = find_spec("rerun_cli")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).with_name("rerun"))


def _children_listen(ports: set[int]) -> bool:
    """Tell whether processes that this one started listen on all of the ports."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found |= {one.laddr.port for one in child.connections("tcp") if one.status == psutil.CONN_LISTEN}
    return ports <= found
