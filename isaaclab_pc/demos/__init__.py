# SPDX-License-Identifier: BSD-3-Clause
"""Demonstrations: the HDF5 file that they are recorded to, and LeRobot datasets of it."""
