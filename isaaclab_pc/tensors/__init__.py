# SPDX-License-Identifier: BSD-3-Clause
"""What all rooms compute with: keyed random numbers, poses, launches of Warp kernels, constants."""
