# SPDX-License-Identifier: BSD-3-Clause
"""Compare runs in a table, with curves and CSV: python scripts/compare.py --help shows how."""

from isaaclab_pc.commands.compare import main

if __name__ == "__main__":
    raise SystemExit(main())
