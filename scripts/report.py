# SPDX-License-Identifier: BSD-3-Clause
"""Write a run as one page, or compare runs: python scripts/report.py --help shows how."""

import sys

from isaaclab_pc.commands.report import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
