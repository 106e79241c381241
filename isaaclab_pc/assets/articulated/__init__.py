# SPDX-License-Identifier: BSD-3-Clause
"""Cabinets with a drawer and valves: their shapes in many sizes, and sets of them."""
