# SPDX-License-Identifier: BSD-3-Clause
"""What a command needs before a child runs: settings, platform, run folder, child processes.

Loads neither torch nor a simulator.
"""
