# SPDX-License-Identifier: BSD-3-Clause
"""Robots and objects made of primitives, authored as USD by code in this package.

Importing this package loads no simulator; :mod:`.franka` and :mod:`.objects` do.
"""
