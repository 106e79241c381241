# SPDX-License-Identifier: BSD-3-Clause
"""List the tasks: python scripts/list_tasks.py --help."""

from isaaclab_pc.commands.list_tasks import main

if __name__ == "__main__":
    raise SystemExit(main())
