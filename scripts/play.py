# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a checkpoint: python scripts/play.py --help shows all settings."""

import sys

from isaaclab_pc.commands.play import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
