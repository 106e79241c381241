# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the renderer that renders no image that nobody wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab.utils import configclass
from isaaclab_newton.renderers import NewtonWarpRendererCfg

if TYPE_CHECKING:
    from isaaclab_pc.sensors.lazy_renderer import LazyWarpRenderer


@configclass
class LazyWarpRendererCfg(NewtonWarpRendererCfg):
    """Isaac Lab's Newton Warp renderer; a camera without data types renders nothing."""

    class_type: type[LazyWarpRenderer] | str = "{DIR}.lazy_renderer:LazyWarpRenderer"
