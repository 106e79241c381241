# SPDX-License-Identifier: BSD-3-Clause
"""Record demonstrations of an expert: python scripts/demo.py --help shows how."""

import sys

from isaaclab_pc.commands.demo import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
