# SPDX-License-Identifier: BSD-3-Clause
"""Search for better settings: python scripts/tune.py --help shows how."""

import sys

from isaaclab_pc.commands.tune import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
