# SPDX-License-Identifier: BSD-3-Clause
"""Find how many environments fit: python scripts/scale.py --help shows how."""

import sys

from isaaclab_pc.commands.scale import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
