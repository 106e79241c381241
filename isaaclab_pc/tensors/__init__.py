# SPDX-License-Identifier: BSD-3-Clause
"""Keyed random numbers, poses, launches of Warp kernels, constants."""
