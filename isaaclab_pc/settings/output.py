# SPDX-License-Identifier: BSD-3-Clause
"""What every script takes beside a run's settings: how much it prints."""

from __future__ import annotations

from isaaclab_pc.settings.base import ScriptSettings

__all__ = ["OutputSettings"]


class OutputSettings(ScriptSettings):
    """What the script prints (docs/reading-output.md)."""

    quiet: bool = False
    """Print only what was decided, warnings, the result, and what was made."""
