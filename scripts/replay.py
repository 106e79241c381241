# SPDX-License-Identifier: BSD-3-Clause
"""Replay the last steps of a failed environment: python scripts/replay.py --help shows how."""

import sys

from isaaclab_pc.commands.replay import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
