# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's viser, for tasks of other packages: it listens where the user said, and not on all networks."""

from __future__ import annotations

from typing import Any

from isaaclab_pc.terminal.screen import current
from isaaclab_pc.viewer.web_address import free_port, host_name

__all__ = ["serve_viser"]


def serve_viser(host: str, sim_cfg: Any) -> None:
    """Have Isaac Lab's viser listen on one address, at a port that is free, and say where.

    Args:
        host: An address of this machine.
        sim_cfg: The ``SimulationCfg`` of the simulation to come, which is changed. Its own configuration of viser is
            kept, but for the address and a port that is taken.

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
