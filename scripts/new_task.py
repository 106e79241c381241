# SPDX-License-Identifier: BSD-3-Clause
"""Write the skeleton of a new task: python scripts/new_task.py --help."""

from isaaclab_pc.commands.new_task import main

if __name__ == "__main__":
    raise SystemExit(main())
