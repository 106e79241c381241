# SPDX-License-Identifier: BSD-3-Clause
"""Physics backends and their settings in one vocabulary.

``dt``, ``decimation``, ``substeps``, ``position_iterations`` and ``velocity_iterations`` mean the same for every
backend and are mapped to the fields that its solver really reads.
"""

from isaaclab_pc.physics.presets import PhysicsPresetsCfg, prepare_for_device
from isaaclab_pc.physics.settings import BACKENDS, PhysicsSettings, apply_physics, resolve_backend

__all__ = [
    "BACKENDS",
    "PhysicsPresetsCfg",
    "PhysicsSettings",
    "apply_physics",
    "prepare_for_device",
    "resolve_backend",
]
