# SPDX-License-Identifier: BSD-3-Clause
"""Frames on bodies, such as a camera on the hand, where ovphysx loses them."""

import functools
from typing import Any

from isaaclab_ov.physics import OvPhysxCfg


def keep_frames_on_their_bodies(physics: Any) -> None:
    """Let frames on ovphysx follow the body of their own environment where there are few environments, too.

    Where environments are built from several prototypes (pegs and boxes of several sizes), Isaac Lab 3.0 finds the prim
    of a frame once for each prototype. With no more environments than that, it takes them for those of the
    environments: each frame is that of environment 0, at rest where it was made. Found once, it is copied as it should.
    """
    if not isinstance(physics, OvPhysxCfg):
        return
    from isaaclab_ov.sim.views import ovphysx_frame_view

    view: Any = ovphysx_frame_view.OvPhysxFrameView
    initialize = view._initialize_impl
    if hasattr(initialize, "__wrapped__"):
        return

    @functools.wraps(initialize)
    def initialize_with_each_prim_once(self: Any, physx: Any) -> None:
        self._prims = list({prim.GetPath(): prim for prim in self._prims}.values())
        initialize(self, physx)

    view._initialize_impl = initialize_with_each_prim_once
