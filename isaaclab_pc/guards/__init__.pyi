# SPDX-License-Identifier: BSD-3-Clause
from .attach import attach_guard
from .causes import CAUSES, Cause, FaultError
from .guard import Guard
from .guard_cfg import GuardCfg
from .scene_state import SceneState
from .step_guard import NoStepGuard, StepGuard
from .step_hooks import StepHook, add_step_hook

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
]
