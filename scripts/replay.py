# SPDX-License-Identifier: BSD-3-Clause
"""Replay the last steps of a failed environment: python scripts/replay.py --help shows how."""

from isaaclab_pc.commands.replay import main

if __name__ == "__main__":
    raise SystemExit(main())
