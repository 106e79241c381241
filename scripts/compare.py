# SPDX-License-Identifier: BSD-3-Clause
"""Compare runs in a table, with curves and CSV: python scripts/compare.py --help shows how."""

import sys

from isaaclab_pc.commands.compare import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
