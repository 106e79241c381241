# SPDX-License-Identifier: BSD-3-Clause
"""Tasks: importing this package registers them with gymnasium and loads no simulator."""

from isaaclab_pc.tasks import lift, lift_any, open_drawer, peg_insert, push, reach, stack, turn_valve

__all__ = ["lift", "lift_any", "open_drawer", "peg_insert", "push", "reach", "stack", "turn_valve"]
