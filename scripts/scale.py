# SPDX-License-Identifier: BSD-3-Clause
"""Find how many environments fit: python scripts/scale.py --help shows how."""

from isaaclab_pc.commands.scale import main

if __name__ == "__main__":
    raise SystemExit(main())
