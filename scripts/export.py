# SPDX-License-Identifier: BSD-3-Clause
"""Export a policy for programs without a simulator: python scripts/export.py --help shows how."""

from isaaclab_pc.commands.export import main

if __name__ == "__main__":
    raise SystemExit(main())
