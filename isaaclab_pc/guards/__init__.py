# SPDX-License-Identifier: BSD-3-Clause
"""Checks that keep a bad environment from reaching the learner."""

from isaaclab_pc.guards.causes import CAUSES, Cause, FaultError
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.guards.scene_state import SceneState
from isaaclab_pc.guards.wrapper import attach_guard

__all__ = ["CAUSES", "Cause", "FaultError", "Guard", "GuardCfg", "SceneState", "attach_guard"]
