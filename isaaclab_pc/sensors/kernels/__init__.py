# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of the clouds, for CPU and CUDA, giving the same pixels."""
