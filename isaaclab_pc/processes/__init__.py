# SPDX-License-Identifier: BSD-3-Clause
"""Child processes of this machine: their start and end, signals, output, memory and caches. Loads no torch."""
