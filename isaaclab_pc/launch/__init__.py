# SPDX-License-Identifier: BSD-3-Clause
"""Everything before a child runs: settings, platform, run folder, child processes.

Loads neither torch nor a simulator.
"""
