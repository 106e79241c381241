# SPDX-License-Identifier: BSD-3-Clause
"""Where pages in a browser are served: this package's, and Isaac Lab's viser for tasks of other packages."""

import errno
import socket
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.terminal.screen import current

_LAST_PORT = 65535


def free_port(host: str, port: int) -> int:
    """Return a port of an address to listen on, or the next one where it is taken, and say so.

    Raises:
        ConfigError: This user may listen on none of them.
    """
    for candidate in range(port, _LAST_PORT + 1):
        try:
            socket.create_server((host, candidate)).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise ConfigError(
                f"port={candidate} host={host}: cannot listen there ({error.strerror}). Give a port from 1024 up."
            ) from None
        if candidate != port:
            current().say(f"note: port {port} is taken, {candidate} is the next free one")
        return candidate
    raise ConfigError(f"port={port} host={host}: it is taken, and so are all above it. Give a lower port.")


def host_name(host: str) -> str:
    """Return the name under which a browser finds an address of this machine, or all of them."""
    return {"0.0.0.0": socket.gethostname(), "127.0.0.1": "localhost"}.get(host, host)


def serve_isaaclab_viser(host: str, sim_cfg: Any) -> None:
    """Have Isaac Lab's viser listen on one address, not on all networks, at a free port, and say where.

    The ``SimulationCfg`` of the simulation to come is changed: its own configuration of viser is kept, but for the
    address and a port that is taken.

    Raises:
        ConfigError: There is no free port.
    """
    from isaaclab_visualizers.viser import ViserVisualizerCfg

    own = sim_cfg.visualizer_cfgs or []
    cfgs = own if isinstance(own, list) else [own]
    cfg = next((cfg for cfg in cfgs if cfg.visualizer_type == "viser"), None)
    if cfg is None:
        cfg = ViserVisualizerCfg()
        cfgs = [*cfgs, cfg]
    cfg.bind_address = host
    cfg.port = free_port(host, cfg.port)
    sim_cfg.visualizer_cfgs = cfgs
    current().say(f"visualizer=viser: watch at http://{host_name(host)}:{cfg.port}")
