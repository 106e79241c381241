# SPDX-License-Identifier: BSD-3-Clause
"""Record demonstrations of an expert: python scripts/demo.py --help shows how."""

from isaaclab_pc.commands.demo import main

if __name__ == "__main__":
    raise SystemExit(main())
