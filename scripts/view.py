# SPDX-License-Identifier: BSD-3-Clause
"""Look at a few environments as the policy sees them: python scripts/view.py --help shows all settings."""

import sys

from isaaclab_pc.commands.view import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
