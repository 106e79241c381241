# SPDX-License-Identifier: BSD-3-Clause
"""Train a policy: python scripts/train.py --help shows all settings."""

import sys

from isaaclab_pc.commands.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
