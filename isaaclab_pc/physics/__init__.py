# SPDX-License-Identifier: BSD-3-Clause
"""Physics backends and their settings in one vocabulary.

``dt``, ``decimation``, ``substeps``, ``position_iterations``, ``velocity_iterations``, ``contacts`` and ``constraints``
mean the same for every backend and are mapped to the fields that its solver really reads; ``preset`` names values for
them that were found by measurement. A monitor watches how full the solver's buffers are. The presets that tasks use
load Isaac Lab and are in :mod:`isaaclab_pc.physics.presets`; importing this package loads neither it nor torch.
"""

from isaaclab_pc.physics.apply import apply_physics
from isaaclab_pc.physics.contacts import HEADROOM, ContactUsage, grown, monitor_contacts

__all__ = ["HEADROOM", "ContactUsage", "apply_physics", "grown", "monitor_contacts"]
