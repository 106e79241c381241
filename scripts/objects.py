# SPDX-License-Identifier: BSD-3-Clause
"""Make or import sets of objects: python scripts/objects.py --help shows how."""

import sys

from isaaclab_pc.commands.objects import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
