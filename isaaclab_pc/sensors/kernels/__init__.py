# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the cloud operator: numba's for the CPU, Warp's for CUDA, giving the same pixels."""
