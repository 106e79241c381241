# SPDX-License-Identifier: BSD-3-Clause
"""Look at a few environments as the policy sees them: python scripts/view.py --help shows all settings."""

from isaaclab_pc.commands.view import main

if __name__ == "__main__":
    raise SystemExit(main())
