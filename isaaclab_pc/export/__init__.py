# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy for a robot: its network with the normalization, and a description of its inputs and outputs."""
