# SPDX-License-Identifier: BSD-3-Clause
"""Compare runs: python scripts/compare.py --help shows how."""

import sys

from isaaclab_pc.commands.compare import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
