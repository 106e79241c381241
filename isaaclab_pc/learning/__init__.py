# SPDX-License-Identifier: BSD-3-Clause
"""What RSL-RL lacks, behind its own ``class_name``: its runner finds these algorithms by the names of their classes."""
