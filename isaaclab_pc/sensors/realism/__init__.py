# SPDX-License-Identifier: BSD-3-Clause
"""The errors of a real depth camera: their settings, the model and its kernels."""
