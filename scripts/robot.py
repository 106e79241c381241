# SPDX-License-Identifier: BSD-3-Clause
"""Import an arm from URDF, MJCF or USD: python scripts/robot.py --help shows how."""

from isaaclab_pc.commands.robot import main

if __name__ == "__main__":
    raise SystemExit(main())
