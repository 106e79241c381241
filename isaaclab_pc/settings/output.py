# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a script's output."""

from isaaclab_pc.settings.base import ScriptSettings


class OutputSettings(ScriptSettings):
    """The output of the script (docs/reading-output.md)."""

    quiet: bool = False
    """Print only what was decided, warnings, the result, and what was made."""
