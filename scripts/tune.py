# SPDX-License-Identifier: BSD-3-Clause
"""Search for better settings: python scripts/tune.py --help shows how."""

from isaaclab_pc.commands.tune import main

if __name__ == "__main__":
    raise SystemExit(main())
