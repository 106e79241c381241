# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms that RSL-RL lacks; its runner finds them by ``class_name``."""
