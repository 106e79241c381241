# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3: adapter, configuration and policy."""
