# SPDX-License-Identifier: BSD-3-Clause
"""Physics backends and their settings in one vocabulary.

``dt``, ``decimation``, ``substeps``, ``position_iterations`` and ``velocity_iterations`` mean the same for every
backend and are mapped to the fields that its solver really reads. The presets that tasks use load Isaac Lab and stand
in :mod:`isaaclab_pc.physics.presets`; importing this package loads neither it nor torch.
"""

from isaaclab_pc.physics.settings import BACKENDS, PhysicsSettings, apply_physics, resolve_backend

__all__ = ["BACKENDS", "PhysicsSettings", "apply_physics", "resolve_backend"]
