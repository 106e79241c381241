# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the guard."""

from __future__ import annotations

from typing import Literal

from isaaclab.utils import configclass


@configclass
class GuardCfg:
    """What counts as a fault, and what follows."""

    mode: Literal["quarantine", "disabled"] = "quarantine"
    """``quarantine`` ends a faulty environment's episode with reward 0 and resets it; ``disabled`` checks nothing."""

    max_abs: float = 1000.0
    """Largest magnitude accepted in actions, physics state, rewards and observations, in each tensor's SI unit."""
