# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games: adapter, configuration and network."""
