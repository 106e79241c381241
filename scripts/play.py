# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a checkpoint: python scripts/play.py --help shows all settings."""

from isaaclab_pc.commands.play import main

if __name__ == "__main__":
    raise SystemExit(main())
