# SPDX-License-Identifier: BSD-3-Clause
"""Every setting, written once: its name, type, unit, bounds, default and meaning.

Checks, near names, ``--help``, docs/settings.md and what a child process reads all come from these classes. Importing
them loads neither torch nor a simulator.
"""

from isaaclab_pc.settings.guard import GuardSettings
from isaaclab_pc.settings.physics import PhysicsSettings
from isaaclab_pc.settings.points import PointsSettings
from isaaclab_pc.settings.run import EvalSettings, RunSettings
from isaaclab_pc.settings.scaling import ScalingSettings
from isaaclab_pc.settings.supervise import SuperviseSettings

__all__ = [
    "EvalSettings",
    "GuardSettings",
    "PhysicsSettings",
    "PointsSettings",
    "RunSettings",
    "ScalingSettings",
    "SuperviseSettings",
]
