# SPDX-License-Identifier: BSD-3-Clause
"""A run: its folder, record, checkpoints, jobs, device and algorithm. Loads no torch."""
