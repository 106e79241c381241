# SPDX-License-Identifier: BSD-3-Clause
"""Finite checks that keep a bad environment from reaching the learner."""

from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg

__all__ = ["Guard", "GuardCfg"]
