# SPDX-License-Identifier: BSD-3-Clause
"""Make or import sets of objects: python scripts/objects.py --help shows how."""

from isaaclab_pc.commands.objects import main

if __name__ == "__main__":
    raise SystemExit(main())
