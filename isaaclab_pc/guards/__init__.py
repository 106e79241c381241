# SPDX-License-Identifier: BSD-3-Clause
"""Checks that keep a bad environment from reaching the learner."""

from isaaclab_pc.guards.attach import attach_guard
from isaaclab_pc.guards.causes import CAUSES, Cause, FaultError
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.guards.scene_state import SceneState
from isaaclab_pc.guards.step_guard import NoStepGuard, StepGuard, make_step_guard
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook

__all__ = [
    "CAUSES",
    "Cause",
    "FaultError",
    "Guard",
    "GuardCfg",
    "NoStepGuard",
    "SceneState",
    "StepGuard",
    "StepHook",
    "add_step_hook",
    "attach_guard",
    "make_step_guard",
]
