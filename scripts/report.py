# SPDX-License-Identifier: BSD-3-Clause
"""Write a run as one page, or compare runs: python scripts/report.py --help shows how."""

from isaaclab_pc.commands.report import main

if __name__ == "__main__":
    raise SystemExit(main())
