# SPDX-License-Identifier: BSD-3-Clause
"""Objects of many shapes: how they are made, how they rest and are grasped, and sets of them. Loads no simulator."""
