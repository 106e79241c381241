# SPDX-License-Identifier: BSD-3-Clause
"""Train a policy: python scripts/train.py --help shows all settings."""

from isaaclab_pc.commands.train import main

if __name__ == "__main__":
    raise SystemExit(main())
