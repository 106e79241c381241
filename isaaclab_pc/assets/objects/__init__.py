# SPDX-License-Identifier: BSD-3-Clause
"""Objects of many shapes: how they are made, how they rest and are grasped, and sets of them.

Only :mod:`.object_set`, which puts them into a scene, loads Isaac Lab.
"""

DENSITY = 400.0
"""Mass per volume [kg/m^3], about that of wood."""
