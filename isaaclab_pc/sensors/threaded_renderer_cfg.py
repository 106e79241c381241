# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the renderer that uses all threads of a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab.utils import configclass
from isaaclab_newton.renderers import NewtonWarpRendererCfg

if TYPE_CHECKING:
    from isaaclab_pc.sensors.threaded_renderer import ThreadedWarpRenderer


@configclass
class ThreadedWarpRendererCfg(NewtonWarpRendererCfg):
    """Isaac Lab's Newton Warp renderer; on a CPU, torch's number of threads share the environments among them."""

    class_type: type[ThreadedWarpRenderer] | str = "{DIR}.threaded_renderer:ThreadedWarpRenderer"
