# SPDX-License-Identifier: BSD-3-Clause
"""isaaclab_pc for lerobot: its environments (env.py, config.py) and its exported policies (policy.py).

lerobot finds both by ``--env.discover_packages_path=lerobot_isaaclab_pc`` where ``PYTHONPATH`` has the folder above.
"""
